/* unclaimed_tasks */
-- Tasks with steps that have been ready and unclaimed for longer than $3 milliseconds: at most $4, higher priorities
-- first, with the names of these steps. $1 namespaces, with a step name ($2; null: all) each; no namespace occurs both
-- with and without a name. Namespaces without fallback, and steps that a limit holds back, are left out.
-- Index: step_due_in_queue of the queues that have steps; of these, $4 queues with $4 steps each at most.
select t.id, n.name as namespace, t.priority, t.state::text as state, (extract(epoch
    from t.updated_at) * 1000000)::bigint as updated_at_us, count(*) as ready, array_agg(distinct l.name) as names
from unnest($1::text[], $2::text[]) as w (namespace, name)
join {schema}.namespace n on n.name = w.namespace
cross join lateral (
    select (n.id::bigint << 40) + 65536 as since, (n.id + 1::bigint << 40) - 1 as until where w.name is null
    union all
    select r.since, r.since + 65535
    from (
        select l.id >> 16 << 16 as since from {schema}.step_queue l where l.namespace_id = n.id and l.name = w.name
            limit 1
    ) r
) r
cross join lateral (
    select k.id, k.name
    from {schema}.live_queues(array[r.since], array[r.until]) l
    cross join lateral (
        select k.id, k.name, k.priority, k.namespace_limit_id, k.name_limit_id from {schema}.step_queue k
            where k.id = l.queue_id offset 0
    ) k
    where l.due_at <= now() - $3::bigint * interval '1 ms'
      and not exists (select from {schema}.step_limit m where m.id in (k.namespace_limit_id, k.name_limit_id)
          and m.running >= m.max_running)
    order by k.priority desc, l.due_at
    limit $4
) l
cross join lateral (
    select s.task_id, s.due_at from {schema}.step s
    where s.queue_id = l.id and s.due_at <= now() - $3::bigint * interval '1 ms' and s.due_at < 'infinity'
    order by s.due_at limit $4
) s
cross join lateral (
    select t.id, t.priority, t.state, t.updated_at from {schema}.task t where t.id = s.task_id offset 0
) t
where n.fallback
group by t.id, t.priority, t.state, t.updated_at, n.name
order by t.priority desc, min(s.due_at)
limit $4
