-- Extends the leases of steps, and stores their checkpoints. A lease never gets shorter, and no attempt lasts longer
-- than its step's timeout.
-- Outcomes: renewed. renewed <milliseconds>: until the step's timeout, where the engine ends the attempt. lost: the
--           claim does not hold the step any more, or its timeout has passed: its worker should stop. null: another
--           transaction has locked the step.
-- Locks:    the steps, in order, skip locked; `patient` waits. A completion holds the task and then waits for steps, so
--           a transaction that holds a step must not wait for another.
-- Commit:   synchronous_commit = off, unless a checkpoint is stored.
create or replace function {schema}.renew_steps(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    tasks uuid[], ordinals integer[], fences bigint[], leases_ms bigint[], checkpoints text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    of_slot integer;
    result  text;
    locked  boolean[] := array_fill(false, array[cardinality(tasks)]);
    renewed text[] := array_fill(null::text, array[cardinality(tasks)]);
begin
    if checkpoints is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    for index in 1 .. cardinality(tasks) loop
        -- A step that occurs twice in one batch is locked already.
        if patient then
            select s.slot into of_slot from {schema}.step s
            where s.task_id = tasks[index] and s.ordinal = ordinals[index]
            for update;
        else
            select s.slot into of_slot from {schema}.step s
            where s.task_id = tasks[index] and s.ordinal = ordinals[index]
            for update skip locked;
        end if;
        locked[index] := found;
        continue when not found;
        update {schema}.step s
        set due_at = greatest(s.due_at, least(
                now() + leases_ms[index] * interval '1 ms', s.since + d.timeout_ms * interval '1 ms')),
            -- The engine ends a lease that ends with the timeout: see functions/claim_steps.sql.
            queue_id = case when now() + leases_ms[index] * interval '1 ms'
                >= s.since + d.timeout_ms * interval '1 ms' then 0 else s.queue_id end
        from {schema}.definition d
        where s.task_id = tasks[index] and s.ordinal = ordinals[index] and s.fence = fences[index]
          and s.state = 'in_progress'
          and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[index])
          and d.ordinal = of_slot
          and (d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now())
        returning concat_ws(' ', 'renewed', case when s.due_at >= s.since + d.timeout_ms * interval '1 ms'
            then ceil(extract(epoch from s.due_at - now()) * 1000)::bigint end)
        into result;
        renewed[index] := result;
        if result is not null and checkpoints[index] is not null then
            insert into {schema}.step_data as stored (task_id, ordinal, checkpoint)
            values (tasks[index], ordinals[index], checkpoints[index])
            on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
        end if;
    end loop;
    outcomes := array(
        select case
            when renewed[n.index] is not null then renewed[n.index]
            when not locked[n.index] and exists (
                select from {schema}.step s
                where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence
                  and s.state = 'in_progress') then null
            else 'lost' end
        from unnest(tasks, ordinals, fences) with ordinality as n (task_id, ordinal, fence, index)
        order by n.index);
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
