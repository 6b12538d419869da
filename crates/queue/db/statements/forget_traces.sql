/* forget_traces */
-- Deletes the traces that are older than the first message of their partition. $1 partitions bigint[]
-- Index: trace_message.
delete from {schema}.trace t
using unnest($1::bigint[]) as n (id)
cross join lateral (select coalesce((select s.created_at from {schema}.segment s
    where s.partition_id = n.id order by s.first_offset limit 1), now()) as since) o
where t.partition_id = n.id and t.created_at < o.since
