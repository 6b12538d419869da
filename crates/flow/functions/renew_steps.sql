-- Makes the leases of steps last, and keeps how far they have come, if that is said. No attempt lasts longer than its step's timeout.
-- Outcomes: o: it lasts; s: the step is not this claim's any more, and whoever works on it should stop.
-- Locks:    the steps.
-- Commit:   is not waited for to be on disk, unless a checkpoint is kept.
create or replace function {schema}.renew_steps(tasks uuid[], ordinals integer[], fences integer[], leases_ms bigint[], checkpoints text[]) returns text[]
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    kept integer[];
begin
    if checkpoints is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    with mine as materialized (
        select n.place::integer, s.task_id, s.ordinal, n.lease_ms, d.timeout_ms
        from unnest(tasks, ordinals, fences, leases_ms) with ordinality as n (task_id, ordinal, fence, lease_ms, place)
        join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i'
        join {schema}.task t on t.id = s.task_id
        join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
        order by s.task_id, s.ordinal for update of s
    ), renewed as (
        update {schema}.step s set due_at = least(now() + m.lease_ms * interval '1 ms', s.since + m.timeout_ms * interval '1 ms')
        from mine m where s.task_id = m.task_id and s.ordinal = m.ordinal
        returning m.place
    )
    select coalesce(array_agg(r.place), '{}') into kept from renewed r;
    if checkpoints is not null then
        insert into {schema}.step_data as k (task_id, ordinal, checkpoint)
        select tasks[n.place], ordinals[n.place], checkpoints[n.place] from unnest(kept) as n (place) where checkpoints[n.place] is not null
        on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
    end if;
    return array(select case when p.place = any (kept) then 'o' else 's' end from generate_subscripts(tasks, 1) as p (place) order by p.place);
end
$$;
