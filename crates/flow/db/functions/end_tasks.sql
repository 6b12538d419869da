-- Ends tasks as they are: what is not over in them is cancelled, and whoever works on it loses it.
-- becomes: the state of the tasks then.
-- Locks:   the caller has those of the tasks; it waits for whoever claims one of their steps.
-- Cost:    the steps of these tasks.
create or replace function {schema}.end_tasks(tasks uuid[], becomes "char") returns void
language plpgsql volatile set search_path = reveille_own
as $$
declare
    left_tasks uuid[];
    left_slots integer[];
begin
    perform from {schema}.step s where s.task_id = any (tasks) and s.state in ('p', 'r', 'i', 'w') order by s.task_id, s.ordinal for update;
    with lost as (
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at)
        select s.task_id, s.ordinal, s.fence, s.attempt, 'x', s.worker, s.ready_at, s.since from {schema}.step s where s.task_id = any (tasks) and s.state = 'i'
        returning task_id, ordinal
    )
    select array_agg(s.task_id), array_agg(s.slot) into left_tasks, left_slots
    from lost l join {schema}.step s on s.task_id = l.task_id and s.ordinal = l.ordinal;
    update {schema}.step s set state = 'x', due_at = 'infinity', since = now() where s.task_id = any (tasks) and s.state in ('p', 'r', 'i', 'w');
    update {schema}.task t set state = becomes, due_at = 'infinity', updated_at = now(), ended_at = now() where t.id = any (tasks);
    perform {schema}.free_slots(left_tasks, left_slots);
end
$$;
