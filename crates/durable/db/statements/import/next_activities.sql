/* import_next_activities */
-- The next batch of activities, in the order they were scheduled. $1 after this id text  $2 from the first on boolean
-- $3 at most bigint
-- Rows:  one: the first and the last id, as text; nulls if there are no more. The process reads their work items, so
--        the bytes are bounded too.
select min(batch.id)::text, max(batch.id)::text
from (
    select activity.id, sum(activity.bytes) over (order by activity.id) - activity.bytes as bytes_before
    from (
        select source.id, octet_length(source.work_item) as bytes
        from {source}.worker_queue source
        where source.id > case when $2 then 0 else $1::text::bigint end
        order by source.id
        limit $3
    ) as activity
) as batch
where batch.bytes_before < {bytes_per_read}
