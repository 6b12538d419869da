-- Creates a task that continues another one from a step: every step that was completed there and does not follow that
-- step keeps its result. Decisions and batches are applied again, with the choices and inputs that they had.
-- new:       the task to create; see the type new_task. of_task: the other one.
-- slot, part: the step. before, after: the definitions that it depends on, and those that depend on it.
-- new_input: the input of the part; null: that of the other task.
-- channels, payloads: notifications of steps that may be ready.
-- Outcome:   created, or it was before: with the names of the steps that are ready. no_task; no_step: it was never
--            created; large: the other task has more than max_steps steps; open <definition>: a step that it depends on
--            has not been completed; version: the other task is not of this template.
-- Locks:     the other task, shared: its steps cannot be completed meanwhile. Waits for a write to it.
-- Cost:      the steps of both tasks for each step of the longest chain of kept steps.
create or replace function {schema}.fork_task(
    new {schema}.new_task, of_task uuid, from_slot integer, from_part integer, before integer[], after integer[],
    new_input text, operator text, note text, max_steps integer, channels text[], payloads text[]
) returns table (outcome text, ready text[])
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    other   record;
    old     record;
    one     record;
    applied record;
    change  integer;
    done    integer[];
    kept    integer[];
begin
    select t.template_id into other from {schema}.task t where t.id = of_task for share;
    select count(*) as steps,
           bool_or(s.slot = from_slot and s.part is not distinct from from_part
               and s.state not in ('not_created', 'skipped')) as has_step,
           min(s.slot) filter (where s.slot = any (before) and not (
               s.state in ('complete', 'resolved_manually', 'skipped', 'not_created')
               or s.state = 'error' and d.failure_strategy in ('continue_on_failure', 'isolate'))) as open
    into old
    from {schema}.step s
    join {schema}.definition d on d.template_id = other.template_id and d.ordinal = s.slot
    where s.task_id = of_task;
    outcome := case
        when other.template_id is null then 'no_task'
        when other.template_id <> new.template_id then 'version'
        when not coalesce(old.has_step, false) then 'no_step'
        when old.steps > max_steps then 'large'
        when old.open is not null then 'open ' || old.open
        else 'created' end;
    if outcome <> 'created' then
        return next;
        return;
    end if;

    if not exists (select from {schema}.task t where t.id = new.id) then
        perform {schema}.submit_tasks(null, '{}', '{}', false, array[new]);
        loop
            kept := '{}';
            done := '{}';
            change := 0;
            for one in
                select s.ordinal, s.slot, o.state, d.kind, d.children, a.result, e.error
                from {schema}.step s
                join {schema}.step o
                    on o.task_id = of_task and o.slot = s.slot and o.part is not distinct from s.part
                join {schema}.definition d on d.template_id = new.template_id and d.ordinal = s.slot
                left join {schema}.attempt a
                    on a.task_id = of_task and a.ordinal = o.ordinal and a.fence = o.fence
                left join lateral (
                    select e.error from {schema}.attempt e
                    where e.task_id = of_task and e.ordinal = o.ordinal and e.error is not null
                    order by e.ended_at desc, e.fence desc limit 1
                ) e on o.state = 'error'
                where s.task_id = new.id and s.state = 'ready'
                  and not s.slot = any (after) and not (s.slot = from_slot and s.part is not distinct from from_part)
                  and (o.state in ('complete', 'resolved_manually')
                      or o.state = 'error' and d.failure_strategy in ('continue_on_failure', 'isolate'))
                order by s.ordinal
            loop
                insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, result, error, reason)
                values (new.id, one.ordinal, -1, 0,
                    case one.state when 'complete' then 'completed_manually'
                        when 'resolved_manually' then 'resolved_manually'
                        else 'failed_for_good' end::{schema}.attempt_outcome,
                    operator, one.result, one.error, note);
                update {schema}.step s
                set state = one.state, fence = -1, due_at = 'infinity', since = now()
                where s.task_id = new.id and s.ordinal = one.ordinal;
                kept := kept || one.ordinal;
                done := done || one.slot;
                change := change - 1;
                if one.kind in ('decision', 'batchable') then
                    applied := {schema}.apply_result(new.id, new.template_id, one.slot, one.kind,
                        array(
                            select o.slot from {schema}.step o
                            where o.task_id = of_task and o.ordinal = any (one.children)
                              and o.state not in ('not_created', 'skipped')),
                        array(
                            select case when o.slot = from_slot and o.part = from_part then coalesce(new_input, x.input)
                                else x.input end
                            from {schema}.step o
                            join {schema}.step_data x on x.task_id = o.task_id and x.ordinal = o.ordinal
                            where o.task_id = of_task and o.slot = any (one.children) and o.part is not null
                              and x.input is not null
                            order by o.part));
                    change := change + applied.change;
                    done := done || array_remove(array[applied.done], null);
                end if;
            end loop;
            exit when kept = '{}';
            perform {schema}.advance_tasks(
                array[new.id], array_fill(new.id, array[cardinality(done)]), done, array[new.id], array[change]);
        end loop;
    end if;
    ready := array(
        select distinct d.name
        from {schema}.step s
        join {schema}.definition d on d.template_id = new.template_id and d.ordinal = s.slot
        where s.task_id = new.id and s.state = 'ready');
    perform {schema}.notify(channels, payloads);
    return next;
end
$$;
