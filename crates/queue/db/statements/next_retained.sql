/* next_retained */
-- When the next messages reach `retentionSeconds` or `completedRetentionSeconds` of their queue, or
-- `consumedRetentionSeconds` if `retentionEnabled` is false.
-- Rows:  one: milliseconds from now, negative if that has passed; null if there are none.
-- Index: primary key of segment, the first entry of each partition of a queue with one of these options; primary key
--        of cursor, for options that need consumed messages. As `expired`, which finds these messages.
--        10 000 such partitions with three groups: 90 000 pages.
select (extract(epoch from min(least(
           f.created_at + q.seconds * interval '1 s',
           case when f.next_offset <= c.position then f.created_at + q.done_seconds * interval '1 s' end
       )) - now()) * 1000)::float8
from (
    select q.id, case when q.retention_enabled then nullif(q.retention_seconds, 0) end as seconds,
           nullif(case when q.retention_enabled then q.completed_retention_seconds
               else q.consumed_retention_seconds end, 0)
               as done_seconds
    from {schema}.queue q
    where case when q.retention_enabled then q.retention_seconds > 0 or q.completed_retention_seconds > 0
               else q.consumed_retention_seconds > 0 end
) q
join {schema}.partition p on p.queue_id = q.id
cross join lateral (
    select s.next_offset, s.created_at from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset limit 1) f
left join lateral (
    select min(c.position) as position from {schema}.cursor c
    where c.partition_id = p.id and q.done_seconds is not null) c on true
