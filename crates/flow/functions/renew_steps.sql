-- Makes the leases of steps last, and keeps how far they have come, if that is said. No lease gets shorter, and no attempt lasts longer than its step's timeout.
-- Outcomes: o: it lasts; s: the step is not this claim's any more, or its time is over: whoever works on it should stop.
-- Locks:    the steps.
-- Commit:   is not waited for to be on disk, unless a checkpoint is kept.
create or replace function {schema}.renew_steps(tasks uuid[], ordinals integer[], fences bigint[], leases_ms bigint[], checkpoints text[]) returns text[]
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    kept text[];
begin
    if checkpoints is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    with mine as materialized (
        select s.task_id, s.ordinal, n.lease_ms, d.timeout_ms
        from (select m.task_id, m.ordinal, m.fence, max(m.lease_ms) as lease_ms
              from unnest(tasks, ordinals, fences, leases_ms) as m (task_id, ordinal, fence, lease_ms) group by m.task_id, m.ordinal, m.fence) n
        join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i'
        join {schema}.task t on t.id = s.task_id
        join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
        where d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now()
        order by s.task_id, s.ordinal for update of s
    ), renewed as (
        update {schema}.step s set due_at = greatest(s.due_at, least(now() + m.lease_ms * interval '1 ms', s.since + m.timeout_ms * interval '1 ms'))
        from mine m where s.task_id = m.task_id and s.ordinal = m.ordinal
        returning s.task_id, s.ordinal, s.fence
    )
    select coalesce(array_agg(r.task_id || '.' || r.ordinal || '.' || r.fence), '{}') into kept from renewed r;
    if checkpoints is not null then
        -- Of several of one step the last counts.
        insert into {schema}.step_data as k (task_id, ordinal, checkpoint)
        select distinct on (n.task_id, n.ordinal) n.task_id, n.ordinal, n.checkpoint
        from unnest(tasks, ordinals, fences, checkpoints) with ordinality as n (task_id, ordinal, fence, checkpoint, place)
        where n.checkpoint is not null and n.task_id || '.' || n.ordinal || '.' || n.fence = any (kept)
        order by n.task_id, n.ordinal, n.place desc
        on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
    end if;
    return array(select case when n.task_id || '.' || n.ordinal || '.' || n.fence = any (kept) then 'o' else 's' end
                 from unnest(tasks, ordinals, fences) with ordinality as n (task_id, ordinal, fence, place) order by n.place);
end
$$;
