-- Applies an operator's decision to a step, and advances its task.
-- operation: see the type step_operation.
-- Late:      a task that exceeded a lifecycle limit is resumed: all its cancelled steps are pending again, and its
--            limits count from now.
-- Outcomes:  null: another transaction has locked the task. no_task. no_step. task <state>: the task has ended.
--            step <state>: the step's state does not allow it. following_begun: the task went on without this part, and
--            what follows it has begun. already_decided: what follows it was decided when it was resolved.
--            Otherwise `done <step before> <step after> <task state>`, then `readied` if its children became ready, and
--            `any_ready` if any step of the task may have.
-- Locks:     the task, skip locked; `patient` waits. Then by ordinal the step, its children, and the steps in progress:
--            waits for claims and renewals of them.
-- Fence:     negative, so that no worker has it. The step takes it with the result: its worker's report is refused.
create or replace function {schema}.operate_step(
    batch_id uuid, channels text[], payloads text[], patient boolean, operation {schema}.step_operation
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    of_task  uuid := operation.task_id;
    of_slot  integer := operation.slot;
    resets   boolean := operation.outcome = 'reset';
    task     record;
    step     record;
    applied  record;
    advanced record;
    rejection  text;
    operator_fence bigint;
    -- The step failed, and the task went on without it.
    passed   boolean;
    -- Permanent failures of the task that this removes.
    removed  integer;
    resumed  boolean;
    creates  boolean := false;
    done     integer[] := '{}';
    change   integer := 0;
begin
    if patient then
        select t.state, t.template_id, t.failed into task from {schema}.task t where t.id = of_task for update;
    else
        select t.state, t.template_id, t.failed into task from {schema}.task t where t.id = of_task
        for update skip locked;
    end if;
    perform from {schema}.step s
    where task.state is not null and s.task_id = of_task
      and (s.slot = of_slot and s.part is not distinct from operation.part
          or s.state in ('in_progress', 'cancelled')
          or s.ordinal = any ((
              select d.children from {schema}.definition d
              where d.template_id = task.template_id and d.ordinal = of_slot)::integer[]))
    order by s.ordinal for update;
    select s.ordinal, s.state, s.fence, s.attempt, s.worker, s.ready_at, s.since, d.kind, d.children,
           d.failure_strategy
    into step
    from {schema}.step s
    join {schema}.definition d on d.template_id = task.template_id and d.ordinal = s.slot
    where s.task_id = of_task and s.slot = of_slot and s.part is not distinct from operation.part
      and s.state not in ('not_created', 'skipped');
    passed := step.state = 'error' and coalesce(step.failure_strategy in ('continue_on_failure', 'isolate'), false);

    rejection := case
        when task.state is null then
            case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else 'no_task' end
        when step.ordinal is null then 'no_step'
        when task.state in ('complete', 'cancelled', 'resolved_manually') then 'task ' || task.state
        when step.state <> all (operation.allowed) then 'step ' || step.state
        when operation.outcome = 'completed_manually' and step.state = 'resolved_manually'
            and step.kind in ('decision', 'batchable') then 'already_decided'
        when resets and passed and exists (
            select from {schema}.step child
            where child.task_id = of_task and child.ordinal = any (step.children)
              and child.state not in ('not_created', 'pending', 'ready', 'skipped')) then 'following_begun'
        when operation.preview then format('done %s %s %s', step.state, step.state, task.state) end;
    if rejection is not null then
        outcomes := array[nullif(rejection, 'locked')];
        backend := {schema}.finish_batch(batch_id, outcomes, '{}', '{}');
        return next;
        return;
    end if;

    if task.state = 'error' then
        perform {schema}.revive_steps(of_task, step.ordinal, operation.operator, operation.reason);
    end if;
    operator_fence := least(0, (
        select min(a.fence) from {schema}.attempt a where a.task_id = of_task and a.ordinal = step.ordinal)) - 1;
    insert into {schema}.attempt (
        task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, reason)
    select of_task, step.ordinal, step.fence, step.attempt, 'taken_away'::{schema}.attempt_outcome, step.worker,
           step.ready_at, step.since, null, null
    where step.state = 'in_progress'
    union all
    select of_task, step.ordinal, operator_fence, step.attempt, operation.outcome, operation.operator, null, null,
           operation.result, operation.reason;
    update {schema}.step s
    set state = case operation.outcome
            when 'reset' then 'pending'
            when 'completed_manually' then 'complete'
            else 'resolved_manually' end::{schema}.step_state,
        since = now(), due_at = 'infinity',
        attempt = case when resets then 0 else s.attempt end,
        -- A step that is reset, or resolved with a result, keeps its result.
        fence = case when resets or operation.outcome = 'resolved_manually' and s.state = 'complete' then s.fence
            else operator_fence end
    where s.task_id = of_task and s.ordinal = step.ordinal;

    removed := (step.state = 'error' and not passed)::integer;
    resumed := task.failed = removed and (removed = 1 or task.state = 'error');
    if resumed and task.state = 'error' then
        update {schema}.task t
        set failed = 0, state = 'open', ended_at = null, resumed_at = now(),
            due_at = coalesce(now() + operation.limit_ms * interval '1 ms', 'infinity')
        where t.id = of_task;
    elsif removed = 1 then
        update {schema}.task t set failed = t.failed - 1 where t.id = of_task;
    end if;

    if resets and passed then
        -- The steps that went on without it wait for it again.
        update {schema}.step child
        set open_parents = child.open_parents + 1, due_at = 'infinity',
            state = case child.state when 'ready' then 'pending' else child.state end,
            ready_at = case child.state when 'ready' then null else child.ready_at end
        where child.task_id = of_task and child.ordinal = any (step.children)
          and child.state in ('not_created', 'pending', 'ready');
        change := 1;
    elsif not resets and not passed and step.state not in ('complete', 'resolved_manually') then
        done := array[of_slot];
        change := -1;
        creates := step.kind in ('decision', 'batchable');
        if creates then
            applied := {schema}.apply_result(
                of_task, task.template_id, of_slot, step.kind, operation.chosen, operation.inputs);
            change := change + applied.change;
            done := done || array_remove(array[applied.done], null);
        end if;
    end if;
    select a.state, a.readied into advanced
    from {schema}.advance_tasks(
        array[of_task], array_fill(of_task, array[cardinality(done)]), done, array[of_task], array[change]) as a;
    if resets or resumed then
        perform {schema}.resume_tasks(array[of_task]);
    end if;

    outcomes := array[concat_ws(' ', 'done', step.state,
        (select s.state from {schema}.step s where s.task_id = of_task and s.ordinal = step.ordinal),
        advanced.state,
        case when advanced.readied then 'readied' end,
        case when resets or resumed or creates then 'any_ready' end)];
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    if step.state = 'in_progress' then
        perform {schema}.release_limits(array[of_task], array[of_slot]);
    end if;
    return next;
end
$$;
