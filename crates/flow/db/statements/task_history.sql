/* task_history */
-- The rows from which the history of a task ($1) is derived, in one snapshot.
-- Rows:  one per attempt of each created step, one for a step without attempts; one without a step if there is none.
-- Index: primary keys; a range for the steps, and one for their attempts; task_operation_task.
select t.state::text as task_state, t.created_at, greatest(t.ended_at, o.operated_at) as task_ended_at,
       now() as read_at, s.ordinal, s.part, d.name,
       coalesce(d.failure_strategy in ('continue_on_failure', 'isolate'), false) as spared,
       s.state::text as state, s.created_at as came_at, s.ready_at, s.since,
       case when s.due_at < 'infinity' then s.due_at end as due_at, s.attempt, s.worker,
       a.fence, a.attempt as tried, a.outcome::text as outcome, a.worker as who, a.ready_at as was_ready_at,
       a.claimed_at, a.ended_at, a.error is null as silent
from {schema}.task t
left join {schema}.step s on s.task_id = t.id and s.state not in ('not_created', 'skipped')
left join lateral (
    select d.name, d.failure_strategy from {schema}.definition d
    where d.template_id = t.template_id and d.ordinal = s.slot
    offset 0
) d on true
left join lateral (
    select a.* from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal offset 0
) a on true
-- A task that had failed before an operator ended it ended with that operation.
left join lateral (
    select max(o.operated_at) as operated_at from {schema}.task_operation o
    where o.task_id = t.id and o.operation = t.state
) o on true
where t.id = $1
order by s.ordinal, coalesce(a.claimed_at, a.ended_at), a.ended_at, a.fence
