/* next_waiting */
-- When the next messages reach `ttl` or `maxWaitTimeSeconds` of their queue; now, if a deleted queue has remains.
-- Rows:  one: milliseconds from now, negative if that has passed; null if there are none.
-- Index: primary keys of segment and cursor, for partitions of queues with one of the two options. As `expired` and
--        `overdue`, which find these messages. A leased cursor counts from the end of its lease. 10 000 such partitions
--        with three groups: 161 000 pages.
select (extract(epoch from min(n.at) - now()) * 1000)::float8
from (
    select f.created_at + q.seconds * interval '1 s' as at
    from (
        select q.id, least(nullif(q.ttl_seconds, 0), case
                   when not exists (select from {schema}.consumer k where k.queue_id = q.id)
                   then nullif(q.max_wait_time_seconds, 0) end) as seconds
        from {schema}.queue q
        where q.ttl_seconds > 0 or q.max_wait_time_seconds > 0
    ) q
    join {schema}.partition p on p.queue_id = q.id
    cross join lateral (
        select s.created_at from {schema}.segment s where s.partition_id = p.id order by s.first_offset limit 1) f
    union all
    select greatest(o.created_at + q.max_wait_time_seconds * interval '1 s',
                    case when c.lease_id is not null then c.due_at end)
    from {schema}.queue q
    join {schema}.partition p on p.queue_id = q.id
    join {schema}.cursor c on c.partition_id = p.id
    cross join lateral (
        select s.created_at, s.next_offset from {schema}.segment s
        where s.partition_id = p.id and s.first_offset <= greatest(c.position, p.first_offset)
        order by s.first_offset desc limit 1) o
    where q.max_wait_time_seconds > 0 and o.next_offset > greatest(c.position, p.first_offset)
    union all
    select now() where exists (select from {schema}.removed_partition)
) n
