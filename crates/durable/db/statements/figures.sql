/* figures */
-- Instances by status, and the sizes of the queues. $1 max_count bigint: no queue is counted beyond it
-- $2 max_bytes bigint: `instances` is counted up to this table size, and estimated beyond it
-- Rows:  by `kind`: `instances`, one row per status; beyond that size from the statistics of the last analyze.
--        `due_messages`; `running_turns`; `waiting_activities`; `running_activities`. `oldest_seconds`: for how long
--        the oldest has been due.
-- Index: orchestrator_queue_due, index-only; worker_queue_due; `instances` is read whole, up to that size.
-- Pages: 1 000 000 instances and queues of 10 000 each: 245, in 8 ms. `instances` is then not read.
with instances_table as materialized (
    select pg_relation_size(class.oid) > $2::bigint as is_large, greatest(class.reltuples, 0) as row_count
    from pg_class class
    join pg_namespace namespace on namespace.oid = class.relnamespace
    where namespace.nspname = {schema_text} and class.relname = 'instances'
), estimated as (
    select value.status, (value.frequency * instances_table.row_count)::bigint as amount
    from instances_table
    join pg_stats stats
        on stats.schemaname = {schema_text} and stats.tablename = 'instances' and stats.attname = 'status'
    cross join lateral unnest(stats.most_common_vals::text::text[], stats.most_common_freqs)
        as value (status, frequency)
    where instances_table.is_large
), due_message as materialized (
    select message.visible_at from {schema}.orchestrator_queue message
    where message.visible_at <= now()
    order by message.visible_at
    limit $1::bigint
), due_activity as materialized (
    select activity.visible_at, coalesce(activity.locked_until > now(), false) as is_running
    from {schema}.worker_queue activity
    where activity.visible_at <= now()
    limit $1::bigint
)
select 'instances' as kind, instance.status, count(*) as amount, null::float8 as oldest_seconds
from {schema}.instances instance
where not (select instances_table.is_large from instances_table)
group by instance.status
union all
select 'instances', estimated.status, estimated.amount, null
from estimated
union all
select 'due_messages', null, count(*), extract(epoch from now() - min(due_message.visible_at))::float8
from due_message
union all
select 'running_turns', null, count(*), null
from {schema}.instance_locks lease
where lease.locked_until > now()
union all
select case when due_activity.is_running then 'running_activities' else 'waiting_activities' end,
       null, count(*), extract(epoch from now() - min(due_activity.visible_at))::float8
from due_activity
group by due_activity.is_running
