/* performance */
-- Outcomes and durations of tasks ($1) created since a time ($2), by template. Reads at most $3 attempts.
-- Index: primary keys; a range for the attempts of each. Lookups are fenced: see docs/decisions/0024-fenced-lookups.md.
with seen as materialized (
    select t.id, t.template_id, t.state, extract(epoch from t.ended_at - t.created_at) * 1000 as took
    from unnest($1::uuid[]) as i (id)
    cross join lateral (
        select t.id, t.template_id, t.state, t.ended_at, t.created_at from {schema}.task t where t.id = i.id
            and t.created_at >= $2 offset 0
    ) t
), tried as materialized (
    select s.template_id, extract(epoch from a.claimed_at - a.ready_at) * 1000 as waited, extract(epoch
        from a.ended_at - a.claimed_at) * 1000 as took
    from seen s
    cross join lateral (
        select a.claimed_at, a.ready_at, a.ended_at from {schema}.attempt a
        where a.task_id = s.id and a.claimed_at is not null and a.ready_at is not null
        offset 0
    ) a
    limit $3
), tasks as (
    select s.template_id, count(*) as tasks,
           count(*) filter (where s.state = 'open') as open, count(*) filter (where s.state = 'complete') as complete,
               count(*) filter (where s.state = 'error') as failed,
           count(*) filter (where s.state = 'cancelled') as cancelled, count(*)
               filter (where s.state = 'resolved_manually') as resolved,
           percentile_cont(array[0.5, 0.95])
               within group (order by s.took::float8) filter (where s.took is not null) as took
    from seen s group by s.template_id
), attempts as (
    select t.template_id, count(*) as attempts, percentile_cont(array[0.5, 0.95])
        within group (order by greatest(t.waited, 0)::float8) as waited,
           percentile_cont(array[0.5, 0.95]) within group (order by t.took::float8) as took
    from tried t group by t.template_id
)
select n.name as namespace, p.name, p.version, t.tasks, t.open, t.complete, t.failed, t.cancelled, t.resolved, t.took,
       coalesce(a.attempts, 0) as attempts, a.waited, a.took as attempt_took
from tasks t
join {schema}.template p on p.id = t.template_id
join {schema}.namespace n on n.id = p.namespace_id
left join attempts a on a.template_id = t.template_id
order by t.tasks desc, n.name, p.name, p.id
