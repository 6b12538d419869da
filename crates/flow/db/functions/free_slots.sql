-- Makes room where steps are not under way any more, if their lanes are limited; and rings who waits for it, if there was none.
-- tasks, slots: of the steps, each once.
-- Locks: the limits, in order. Nothing is waited for after this, so whoever claims may wait for it: call it last.
create or replace function {schema}.free_slots(tasks uuid[], slots integer[]) returns void
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
declare
    freed integer[];
    full_ boolean;
begin
    if not exists (select from {schema}.step_limit) then
        return;
    end if;
    freed := array(
        select x.id
        from unnest(tasks, slots) as n (task_id, slot)
        join {schema}.task t on t.id = n.task_id
        cross join lateral (select d.name from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
        cross join lateral (
            select l.space_limit_id, l.name_limit_id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0
        ) l
        cross join unnest(array[l.space_limit_id, l.name_limit_id]) as x (id)
        where x.id is not null);
    perform from {schema}.step_limit m where m.id = any (freed) order by m.id for update;
    with less as (
        update {schema}.step_limit m set running = m.running - n.steps
        from (select x.id, count(*)::integer as steps from unnest(freed) as x (id) group by x.id) n
        where m.id = n.id
        returning m.running + n.steps >= m.most as was_full
    )
    select bool_or(l.was_full) into full_ from less l;
    if full_ then
        -- Who waits for another name may have waited for this, too.
        perform {schema}.notify(array[{channel}, {deliveries}], array['', '']);
    end if;
end
$$;
