-- Ends a task as an operator asks: cancelled or resolved manually. Its unfinished steps are cancelled, and their
-- workers' reports are refused. Steps that are not created yet never are.
-- becomes:  the new state. allowed: the states it may be in. preview: change nothing, and answer what would be refused.
-- Outcomes: null: another transaction has locked the task. no_task. task <state>: its state does not allow it.
--           Otherwise `ended <cancelled steps>`, or `repeated <cancelled steps>` if it was in that state before.
-- Locks:    the task, skip locked; `patient` waits. Then its steps by ordinal: waits for claims and renewals of them.
create or replace function {schema}.end_task(
    batch_id uuid, channels text[], payloads text[], patient boolean, of_task uuid, becomes text, allowed text[],
    operator text, reason text, preview boolean
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_variable
declare
    target  {schema}.task_state := becomes;
    before  {schema}.task_state;
    outcome text;
begin
    if patient then
        select t.state into before from {schema}.task t where t.id = of_task for update;
    else
        select t.state into before from {schema}.task t where t.id = of_task for update skip locked;
    end if;
    outcome := case
        when before is null then
            case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else 'no_task' end
        when before = target then 'repeated'
        when before::text <> all (allowed) then 'task ' || before
        when preview then 'ended' end;
    if outcome is null then
        perform {schema}.end_tasks(array[of_task], target);
        insert into {schema}.task_operation (task_id, operation, state_before, operator, reason)
        values (of_task, target, before, end_task.operator, end_task.reason);
        outcome := 'ended';
    else
        channels := '{}';
        payloads := '{}';
    end if;
    if outcome in ('ended', 'repeated') then
        outcome := concat_ws(' ', outcome, (
            select count(*) from {schema}.step s where s.task_id = of_task and s.state = 'cancelled'));
    end if;
    outcomes := array[nullif(outcome, 'locked')];
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
