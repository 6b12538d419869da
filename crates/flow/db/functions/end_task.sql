-- Ends a task as a person wants it: cancelled ('x') or resolved manually ('m'). What is not over of it is cancelled; whoever works on that has lost it. What has not come to be never does.
-- allowed:  the states it may be in for that. dry: changes nothing, and says what would have been refused.
-- Outcomes: null: somebody else has the task. -: there is no task. t and a letter: the task is there.
--           Otherwise = for now or d for before, the task's state before and how many of its steps are cancelled.
-- Locks:    the task, skip locked; `patient` waits. Then its steps by ordinal: whoever claims or renews one holds it for a moment.
create or replace function {schema}.end_task(
    flight uuid, channels text[], payloads text[], patient boolean, of_task uuid, verb text, allowed text[], who text, why text, dry boolean
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    was     "char";
    outcome text;
begin
    if patient then
        select t.state into was from {schema}.task t where t.id = of_task for update;
    else
        select t.state into was from {schema}.task t where t.id = of_task for update skip locked;
    end if;
    outcome := case
        when was is null then case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else '-' end
        when was::text = verb then concat('d', was)
        when was::text <> all (allowed) then concat('t', was)
        when dry then concat('=', was) end;
    if outcome is null then
        perform {schema}.end_tasks(array[of_task], verb::"char");
        insert into {schema}.task_operation (task_id, operation, state_before, operator, reason) values (of_task, verb::"char", was, who, why);
        outcome := concat('=', was);
    else
        channels := '{}';
        payloads := '{}';
    end if;
    outcomes := array[nullif(outcome, 'locked') || case when outcome ~ '^[=d]'
                      then (select count(*) from {schema}.step s where s.task_id = of_task and s.state = 'x')::text else '' end];
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
