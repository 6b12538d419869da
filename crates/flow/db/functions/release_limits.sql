-- Counts steps that are not in progress any more out of their limits, and wakes claims if a limit was reached before.
-- tasks, slots: of the steps, each once.
-- Locks: the limits, in order. Call it last: claims wait for these locks, and nothing is waited for after this.
create or replace function {schema}.release_limits(tasks uuid[], slots integer[]) returns void
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
declare
    limits   integer[];
    was_full boolean;
begin
    if not exists (select from {schema}.step_limit) then
        return;
    end if;
    limits := array(
        select l.id
        from unnest(tasks, slots) as ended (task_id, slot)
        join {schema}.task t on t.id = ended.task_id
        cross join lateral (
            select d.name from {schema}.definition d where d.template_id = t.template_id and d.ordinal = ended.slot
            offset 0
        ) d
        cross join lateral (
            select q.namespace_limit_id, q.name_limit_id from {schema}.step_queue q
            where q.namespace_id = t.namespace_id and q.name = d.name and q.priority = t.priority
            offset 0
        ) q
        cross join unnest(array[q.namespace_limit_id, q.name_limit_id]) as l (id)
        where l.id is not null);
    perform from {schema}.step_limit m where m.id = any (limits) order by m.id for update;
    with released as (
        update {schema}.step_limit m
        set running = m.running - ended.steps
        from (select l.id, count(*)::integer as steps from unnest(limits) as l (id) group by l.id) ended
        where m.id = ended.id
        returning m.running + ended.steps >= m.max_running as full_before
    )
    select bool_or(released.full_before) into was_full from released;
    if was_full then
        -- Claims of other names may have waited for the namespace's limit.
        perform {schema}.notify(array[{channel}, {deliveries}], array['', '']);
    end if;
end
$$;
