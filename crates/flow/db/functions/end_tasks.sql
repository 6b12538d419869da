-- Ends tasks: their unfinished steps are cancelled, and the reports of their workers are refused.
-- becomes: the state of the tasks then.
-- Locks:   the caller holds those of the tasks; waits for claims of their steps.
-- Cost:    the steps of these tasks.
create or replace function {schema}.end_tasks(tasks uuid[], becomes {schema}.task_state) returns void
language plpgsql volatile set search_path = reveille_own
as $$
declare
    taken_tasks uuid[];
    taken_slots integer[];
begin
    perform from {schema}.step s
    where s.task_id = any (tasks) and s.state in ('pending', 'ready', 'in_progress', 'waiting_for_retry')
    order by s.task_id, s.ordinal for update;
    with taken as (
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at)
        select s.task_id, s.ordinal, s.fence, s.attempt, 'taken_away', s.worker, s.ready_at, s.since
        from {schema}.step s
        where s.task_id = any (tasks) and s.state = 'in_progress'
        returning task_id, ordinal
    )
    select array_agg(s.task_id), array_agg(s.slot) into taken_tasks, taken_slots
    from taken
    join {schema}.step s on s.task_id = taken.task_id and s.ordinal = taken.ordinal;
    update {schema}.step s
    set state = 'cancelled', due_at = 'infinity', since = now()
    where s.task_id = any (tasks) and s.state in ('pending', 'ready', 'in_progress', 'waiting_for_retry');
    update {schema}.task t
    set state = becomes, due_at = 'infinity', updated_at = now(), ended_at = now()
    where t.id = any (tasks);
    perform {schema}.release_limits(taken_tasks, taken_slots);
end
$$;
