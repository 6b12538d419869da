-- Does with a step what a person wants, and goes on with its task.
-- verb:     r: it is reset, m: resolved manually, c: completed with the result `body`. allowed: the states it may be in
-- for that.
-- chosen, inputs: what the result says of what is behind it, see functions/follow.sql. limit_ms: how long a task that
-- goes on may take from now, null for ever.
-- dry:      changes nothing, and says what would have been refused.
-- Late:     a task that took too long goes on with all that was cancelled of it, and has its time again.
-- Outcomes: null: somebody else has the task. -: there is no task. ?: there is no step. t and a letter: the task is
--           over. s and a letter: the step is there.
--           b: what went on without it has begun. d: what is behind it was decided before.
--           Otherwise = and the step's state before and after and the task's, + if what follows became ready, and * if
--           any step of the task may have.
-- Locks:    the task, skip locked; `patient` waits. Then by ordinal the step, those behind it, and those that workers
--           have: whoever claims or renews one holds it for a moment.
-- Fence:    below zero, so that no worker has it: the step takes it with the result, and whoever had the step has lost
--           it.
create or replace function {schema}.operate_step(
    flight uuid, channels text[], payloads text[], patient boolean,
    of_task uuid, of_slot integer, of_part integer, verb text, allowed text[], who text, why text, body text, chosen integer[], inputs text[], limit_ms bigint, dry boolean
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    mine    record;
    target  record;
    opened  record;
    after   record;
    outcome text;
    below   bigint;
    -- What follows did not wait for it.
    passed  boolean;
    lifted  integer;
    resumed boolean;
    opens   boolean := false;
    ended   integer[] := '{}';
    change  integer := 0;
begin
    if patient then
        select t.state, t.template_id, t.failed into mine from {schema}.task t where t.id = of_task for update;
    else
        select t.state, t.template_id, t.failed into mine from {schema}.task t where t.id = of_task for update skip locked;
    end if;
    perform from {schema}.step s
    where mine.state is not null and s.task_id = of_task and (s.slot = of_slot and s.part is not distinct from of_part or s.state in ('i', 'x')
          or s.ordinal = any ((select d.children from {schema}.definition d where d.template_id = mine.template_id and d.ordinal = of_slot)::integer[]))
    order by s.ordinal for update;
    select s.ordinal, s.state, s.fence, s.attempt, s.worker, s.ready_at, s.since, d.kind, d.children, d.failure_strategy into target
    from {schema}.step s join {schema}.definition d on d.template_id = mine.template_id and d.ordinal = s.slot
    where s.task_id = of_task and s.slot = of_slot and s.part is not distinct from of_part and s.state not in ('a', 's');
    passed := target.state = 'e' and coalesce(target.failure_strategy in ('c', 'i'), false);

    outcome := case
        when mine.state is null then case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else '-' end
        when target.ordinal is null then '?'
        when mine.state in ('c', 'x', 'm') then concat('t', mine.state)
        when target.state::text <> all (allowed) then concat('s', target.state)
        when verb = 'c' and target.state = 'm' and target.kind in ('d', 'b') then 'd'
        when verb = 'r' and passed and exists (select from {schema}.step s where s.task_id = of_task and s.ordinal = any (target.children) and s.state not in ('a', 'p', 'r', 's')) then 'b'
        when dry then concat('=', target.state, target.state, mine.state) end;
    if outcome is not null then
        outcomes := array[nullif(outcome, 'locked')];
        backend := {schema}.finish_batch(flight, outcomes, '{}', '{}');
        return next;
        return;
    end if;

    if mine.state = 'e' then
        perform {schema}.revive_steps(of_task, target.ordinal, who, why);
    end if;
    below := least(0, (select min(a.fence) from {schema}.attempt a where a.task_id = of_task and a.ordinal = target.ordinal)) - 1;
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, reason)
    select of_task, target.ordinal, target.fence, target.attempt, 'x', target.worker, target.ready_at, target.since, null, null where target.state = 'i'
    union all
    select of_task, target.ordinal, below, target.attempt, verb::"char", who, null, null, body, why;
    update {schema}.step s
    set state = (case verb when 'r' then 'p' else verb end)::"char", since = now(), due_at = 'infinity', attempt = case verb when 'r' then 0 else s.attempt end,
        -- A result that is there stays its result.
        fence = case when verb = 'r' or verb = 'm' and s.state = 'c' then s.fence else below end
    where s.task_id = of_task and s.ordinal = target.ordinal;

    lifted := (target.state = 'e' and not passed)::integer;
    resumed := mine.failed = lifted and (lifted = 1 or mine.state = 'e');
    if resumed and mine.state = 'e' then
        update {schema}.task t set failed = 0, state = 'o', ended_at = null, resumed_at = now(), due_at = coalesce(now() + limit_ms * interval '1 ms', 'infinity') where t.id = of_task;
    elsif lifted = 1 then
        update {schema}.task t set failed = t.failed - 1 where t.id = of_task;
    end if;

    if verb = 'r' and passed then
        -- What went on without it waits for it again.
        update {schema}.step s
        set waiting = s.waiting + 1, due_at = 'infinity', state = case s.state when 'r' then 'p' else s.state end, ready_at = case s.state when 'r' then null else s.ready_at end
        where s.task_id = of_task and s.ordinal = any (target.children) and s.state in ('a', 'p', 'r');
        change := 1;
    elsif verb <> 'r' and not passed and target.state not in ('c', 'm') then
        ended := array[of_slot];
        change := -1;
        opens := target.kind in ('d', 'b');
        if opens then
            opened := {schema}.follow(of_task, mine.template_id, of_slot, target.kind, chosen, inputs);
            change := change + opened.change;
            ended := ended || array_remove(array[opened.done], null);
        end if;
    end if;
    select a.state, a.readied into after
    from {schema}.advance_tasks(array[of_task], array_fill(of_task, array[cardinality(ended)]), ended, array[of_task], array[change]) as a;
    if verb = 'r' or resumed then
        perform {schema}.resume_tasks(array[of_task]);
    end if;

    outcomes := array[concat('=', target.state, (select s.state from {schema}.step s where s.task_id = of_task and s.ordinal = target.ordinal), after.state,
                             case when after.readied then '+' end, case when verb = 'r' or resumed or opens then '*' end)];
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    if target.state = 'i' then
        perform {schema}.free_slots(array[of_task], array[of_slot]);
    end if;
    return next;
end
$$;
