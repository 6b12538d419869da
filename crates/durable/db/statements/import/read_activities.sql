/* import_read_activities */
-- Activities from number $1 text to $2 text, in their order. Rows: their numbers and work items.
select q.id, q.work_item from {source}.worker_queue q where q.id between $1::text::bigint and $2::text::bigint order by q.id
