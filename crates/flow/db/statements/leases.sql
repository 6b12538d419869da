/* leases */
-- Steps that workers hold: those of a namespace ($1; null: of all) and with a name ($2; null: any). At most $3 steps
-- that are held or wait for a retry are read.
-- Rows:  one per step, and a last one with the number of steps that were read.
-- Index: step_due_in_namespace: from one queue to the next, the steps whose time is still to come. A held step with no
--        attempts left is in the engine's queue, 0. Then primary keys, fenced.
with read as materialized (
    select s.task_id, s.slot, s.part, s.state, s.attempt, s.worker, s.since, s.due_at
    from {schema}.live_namespace_queues(
        array[0, coalesce((select n.id::bigint << 40 from {schema}.namespace n where n.name = $1), 1)],
        array[0, coalesce((select (n.id + 1::bigint << 40) - 1 from {schema}.namespace n where n.name = $1),
            case when $1::text is null then 9223372036854775807 else 0 end)]) l
    cross join lateral (
        select s.* from {schema}.step s
        where s.namespace_queue_id = l.queue_id and s.due_at > now() and s.due_at < 'infinity'
        order by s.due_at limit $3
    ) s
    limit $3
)
select n.name as namespace, d.name as step, r.part, r.task_id, r.attempt, r.worker, r.since as claimed_at,
       r.due_at as lease_ends_at, null::bigint as read
from read r
cross join lateral (select t.template_id, t.namespace_id from {schema}.task t where t.id = r.task_id offset 0) t
cross join lateral (select n.name from {schema}.namespace n where n.id = t.namespace_id offset 0) n
cross join lateral (
    select d.name from {schema}.definition d where d.template_id = t.template_id and d.ordinal = r.slot offset 0
) d
where r.state = 'in_progress' and ($1::text is null or n.name = $1) and ($2::text is null or d.name = $2)
union all
select null, null, null, null, null, null, null, null, (select count(*) from read)
