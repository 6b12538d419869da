/* forget_traces */
-- Deletes what was noted about messages of partitions before the oldest that is left. $1 partitions bigint[]
-- Index: trace_message.
delete from {schema}.trace t
using unnest($1::bigint[]) as n (id)
cross join lateral (select coalesce((select s.created_at from {schema}.segment s
    where s.partition_id = n.id order by s.first_offset limit 1), now()) as since) o
where t.partition_id = n.id and t.created_at < o.since
