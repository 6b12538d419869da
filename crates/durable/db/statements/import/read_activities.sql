/* import_read_activities */
-- The activities from id $1 text to $2 text, in order. Rows: id and work item.
select activity.id, activity.work_item
from {source}.worker_queue activity
where activity.id between $1::text::bigint and $2::text::bigint
order by activity.id
