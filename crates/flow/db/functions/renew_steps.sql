-- Makes the leases of steps last, and keeps how far they have come, if that is said. No lease gets shorter, and no
-- attempt lasts longer than its step's timeout.
-- Outcomes: o: it lasts. o and a number: it lasts for so many milliseconds, until the step's timeout, and the engine
--           has to be there then. s: the step is not this claim's any more, or its time is over: its worker should
--           stop. null: another transaction has the step locked.
-- Locks:    the steps, in order, skip locked; `patient` waits. Whoever settles has the task and then waits for steps,
--           so nobody who has a step may wait for another.
-- Commit:   is not waited for to be on disk, unless a checkpoint is kept.
create or replace function {schema}.renew_steps(
    flight uuid, channels text[], payloads text[], patient boolean,
    tasks uuid[], ordinals integer[], fences bigint[], leases_ms bigint[], checkpoints text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    mine    integer;
    lasts   text;
    locked  boolean[] := array_fill(false, array[cardinality(tasks)]);
    renewed text[] := array_fill(null::text, array[cardinality(tasks)]);
begin
    if checkpoints is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    for place in 1 .. cardinality(tasks) loop
        -- The same step twice in one flight is locked already.
        if patient then
            select s.slot into mine from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update;
        else
            select s.slot into mine from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update skip locked;
        end if;
        locked[place] := found;
        continue when not found;
        update {schema}.step s
        set due_at = greatest(s.due_at, least(now() + leases_ms[place] * interval '1 ms', s.since + d.timeout_ms * interval '1 ms')),
            -- A lease that ends with the timeout is the engine's to end: see functions/claim_steps.sql.
            lane_id = case when now() + leases_ms[place] * interval '1 ms' >= s.since + d.timeout_ms * interval '1 ms' then 0 else s.lane_id end
        from {schema}.definition d
        where s.task_id = tasks[place] and s.ordinal = ordinals[place] and s.fence = fences[place] and s.state = 'i'
          and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[place]) and d.ordinal = mine
          and (d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now())
        returning 'o' || case when s.due_at >= s.since + d.timeout_ms * interval '1 ms' then ceil(extract(epoch from s.due_at - now()) * 1000)::bigint::text else '' end
        into lasts;
        renewed[place] := lasts;
        if lasts is not null and checkpoints[place] is not null then
            insert into {schema}.step_data as k (task_id, ordinal, checkpoint) values (tasks[place], ordinals[place], checkpoints[place])
            on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
        end if;
    end loop;
    outcomes := array(
        select case
            when renewed[n.place] is not null then renewed[n.place]
            when not locked[n.place] and exists (select from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i') then null
            else 's' end
        from unnest(tasks, ordinals, fences) with ordinality as n (task_id, ordinal, fence, place) order by n.place);
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
