-- Goes on with tasks of which steps have ended: counts down what waited for them, and ends the tasks that nothing is left of.
-- ended:  the tasks and definitions of steps that what follows need not wait for any more. gone: tasks, once for each step more or less that is left to do.
-- Rows:   one per task: its state, and whether a step became ready.
-- Locks:  the caller has those of the tasks; whoever claims holds a step for a moment.
-- Cost:   as many rows as the ended steps have children, and one per task. Nothing is asked of siblings, but of tasks in which something failed.
create or replace function {schema}.advance_tasks(tasks uuid[], ended_tasks uuid[], ended_slots integer[], changed_tasks uuid[], changes integer[])
returns table (task_id uuid, state "char", readied boolean, watched boolean)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    ready uuid[];
begin
    with counted as materialized (
        select e.task_id, c.ordinal, count(*)::integer as parents, bool_and(t.failed = 0) as goes_on
        from unnest(ended_tasks, ended_slots) as e (task_id, slot)
        join {schema}.task t on t.id = e.task_id
        cross join lateral (select d.children from {schema}.definition d where d.template_id = t.template_id and d.ordinal = e.slot offset 0) d
        cross join lateral unnest(d.children) as c (ordinal)
        group by e.task_id, c.ordinal
    ), moved as (
        update {schema}.step s
        set waiting = s.waiting - n.parents,
            state = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then 'r' else s.state end,
            due_at = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.due_at end,
            ready_at = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.ready_at end,
            since = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.since end
        from counted n
        where s.task_id = n.task_id and s.ordinal = n.ordinal and s.state in ('p', 'a')
        returning s.task_id, s.state
    )
    select coalesce(array_agg(distinct m.task_id) filter (where m.state = 'r'), '{}') into ready from moved m;

    return query
    update {schema}.task t
    set unfinished = t.unfinished + n.change, updated_at = now(),
        state = case when n.over then n.becomes else t.state end,
        due_at = case when n.over then 'infinity' else t.due_at end,
        ended_at = case when n.over then now() else t.ended_at end
    from (
        select k.id, c.change, k.state = 'o' and (e.complete or e.failed) as over, case when e.complete then 'c' else 'e' end::"char" as becomes
        -- Added up, not joined: a join of two arrays takes their product.
        from (select c.task_id, sum(c.change)::integer as change
              from (select c.task_id, c.change from unnest(changed_tasks, changes) as c (task_id, change) union all select n.id, 0 from unnest(tasks) as n (id)) c
              group by c.task_id) c
        join {schema}.task k on k.id = c.task_id
        cross join lateral (
            select k.unfinished + c.change = 0 as complete,
                   -- What was due when something failed is not any more, so nobody can begin with a step that is not seen here.
                   k.failed > 0 and not exists (select from {schema}.step s where s.task_id = k.id and s.state = 'i') as failed
        ) e
    ) n
    where t.id = n.id
    returning t.id, t.state, t.id = any (ready), coalesce(t.watched_until > now(), false) or t.state <> 'o' and coalesce(t.awaited_until > now(), false);
end
$$;
