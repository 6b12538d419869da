/* open_steps */
-- The steps of a task ($1) that have neither been completed nor skipped, in the order of the template, at most $2 rows;
-- with the settings of the namespace, and its limits.
-- Rows:  one per step, or one without a step; none if there is no such task.
-- Index: primary keys; a range for the steps. The limits of a namespace are one range of their index.
select t.state::text as task_state, t.failed, t.priority, t.template_id, n.name as namespace, n.mode::text as mode,
       n.poll_ms, n.provider::text as provider, m.limited, m.most, m.running, s.*
from {schema}.task t
cross join lateral (
    select n.id, n.name, n.mode, n.poll_ms, n.provider from {schema}.namespace n where n.id = t.namespace_id offset 0
) n
cross join lateral (
    select array_agg(m.name) as limited, array_agg(m.max_running) as most, array_agg(m.running) as running
    from {schema}.step_limit m where m.namespace_id = n.id
) m
left join lateral (
    select s.slot, s.part, s.state::text as state, s.attempt, s.worker, s.published is not null as sent,
           s.due_at <= now() as due,
           case when s.due_at < 'infinity' then s.due_at end as due_at
    from {schema}.step s
    where s.task_id = t.id and s.state not in ('complete', 'resolved_manually', 'skipped')
    order by s.slot, s.part
    limit $2
) s on true
where t.id = $1
order by s.slot, s.part
