-- Advances tasks whose steps have ended: counts down the children of the ended steps, and ends the tasks in which no
-- step is left.
-- tasks:     all tasks to advance.
-- done_…:    tasks and definitions of the ended steps, for which their children do not wait any more.
-- changed_…: tasks, and by how much the number of their unfinished steps changes; a task may occur several times.
-- Rows:      one per task: its state, whether a step became ready, and whether a client watches it.
-- Locks:     the caller holds those of the tasks; waits for claims of their steps.
-- Cost:      as many rows as the ended steps have children, and one per task. Siblings are read only in tasks with a
--            permanent failure.
create or replace function {schema}.advance_tasks(
    tasks uuid[], done_tasks uuid[], done_slots integer[], changed_tasks uuid[], changes integer[]
) returns table (task_id uuid, state {schema}.task_state, readied boolean, watched boolean)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    ready_tasks uuid[];
begin
    with counted as materialized (
        select done.task_id, child.ordinal, count(*)::integer as parents, bool_and(t.failed = 0) as goes_on
        from unnest(done_tasks, done_slots) as done (task_id, slot)
        join {schema}.task t on t.id = done.task_id
        cross join lateral (
            select d.children from {schema}.definition d
            where d.template_id = t.template_id and d.ordinal = done.slot
            offset 0
        ) definition
        cross join lateral unnest(definition.children) as child (ordinal)
        group by done.task_id, child.ordinal
    ), moved as (
        update {schema}.step s
        set open_parents = s.open_parents - c.parents,
            state = case when s.state = 'pending' and s.open_parents = c.parents and c.goes_on then 'ready'
                else s.state end,
            due_at = case when s.state = 'pending' and s.open_parents = c.parents and c.goes_on then now()
                else s.due_at end,
            ready_at = case when s.state = 'pending' and s.open_parents = c.parents and c.goes_on then now()
                else s.ready_at end,
            since = case when s.state = 'pending' and s.open_parents = c.parents and c.goes_on then now()
                else s.since end
        from counted c
        where s.task_id = c.task_id and s.ordinal = c.ordinal and s.state in ('pending', 'not_created')
        returning s.task_id, s.state
    )
    select coalesce(array_agg(distinct moved.task_id) filter (where moved.state = 'ready'), '{}')
    into ready_tasks
    from moved;

    return query
    update {schema}.task t
    set unfinished = t.unfinished + advanced.change, updated_at = now(),
        state = case when advanced.over then advanced.becomes else t.state end,
        due_at = case when advanced.over then 'infinity' else t.due_at end,
        ended_at = case when advanced.over then now() else t.ended_at end
    from (
        select o.id, summed.change, o.state = 'open' and (ends.complete or ends.failed) as over,
               case when ends.complete then 'complete' else 'error' end::{schema}.task_state as becomes
        -- Added up, not joined: a join of two arrays is a product.
        from (
            select c.task_id, sum(c.change)::integer as change
            from (
                select c.task_id, c.change from unnest(changed_tasks, changes) as c (task_id, change)
                union all
                select c.task_id, 0 from unnest(tasks) as c (task_id)
            ) c
            group by c.task_id
        ) summed
        join {schema}.task o on o.id = summed.task_id
        cross join lateral (
            select o.unfinished + summed.change = 0 as complete,
                   -- A permanent failure suspends the task, so no step can begin that is not seen here.
                   o.failed > 0 and not exists (
                       select from {schema}.step s where s.task_id = o.id and s.state = 'in_progress') as failed
        ) ends
    ) advanced
    where t.id = advanced.id
    returning t.id, t.state, t.id = any (ready_tasks),
              coalesce(t.watched_until > now(), false)
                  or t.state <> 'open' and coalesce(t.awaited_until > now(), false);
end
$$;
