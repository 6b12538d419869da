/* task_steps */
-- How a task ($1) and its steps stand, at one moment. $2 and $3: only the step of that definition and part; null: all of them.
-- Rows:  one for each step that has come to be, and one without a step if there is none.
-- Index: primary keys; a range for the steps, and one for their attempts.
select t.state::text as task_state, t.updated_at, t.ended_at as task_ended_at,
       s.slot, s.part, s.state::text as state, s.attempt, s.worker, s.ready_at, s.since, s.due_at <= now() as due,
       case when s.due_at < 'infinity' then s.due_at end as due_at, coalesce(d.failure_strategy in ('c', 'i'), false) as spared,
       l.claimed_at, e.error, r.result, x.input, x.checkpoint
from {schema}.task t
left join {schema}.step s on s.task_id = t.id and s.state not in ('a', 's') and ($2::integer is null or s.slot = $2 and s.part is not distinct from $3)
left join lateral (select d.failure_strategy from {schema}.definition d where d.template_id = t.template_id and d.ordinal = s.slot and s.state = 'e' offset 0) d on true
left join lateral (select x.input, x.checkpoint from {schema}.step_data x where x.task_id = s.task_id and x.ordinal = s.ordinal offset 0) x on true
left join lateral (select r.result from {schema}.attempt r where r.task_id = s.task_id and r.ordinal = s.ordinal and r.fence = s.fence and r.result is not null offset 0) r on true
left join lateral (
    select a.claimed_at from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal and a.claimed_at is not null order by a.ended_at desc, a.fence desc limit 1
) l on true
left join lateral (
    select a.error from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal and a.error is not null order by a.ended_at desc, a.fence desc limit 1
) e on true
where t.id = $1
order by s.slot, s.part, s.ordinal
