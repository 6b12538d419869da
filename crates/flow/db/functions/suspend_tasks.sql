-- Stops the scheduling of tasks in which steps have failed for good: what is ready waits, and so does what is to be tried again. What is under way may end; if its worker dies, that is the
-- engine's to notice.
-- failed_tasks: once for each step that failed.
-- Locks: the caller has those of the tasks; it waits for whoever claims one of their steps.
-- Cost:  the steps of these tasks, once.
create or replace function {schema}.suspend_tasks(failed_tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    -- Of a task in which something had failed before, nothing is left to be stopped.
    update {schema}.step s
    set due_at = case s.state when 'i' then s.due_at else 'infinity' end, state = case s.state when 'r' then 'p' else s.state end,
        lane_id = case s.state when 'i' then 0 else s.lane_id end, since = case s.state when 'r' then now() else s.since end
    from {schema}.task t
    where t.id = any (failed_tasks) and t.failed = 0 and s.task_id = t.id and s.state in ('r', 'w', 'i');
    update {schema}.task t set failed = t.failed + n.steps
    from (select f.id, count(*)::integer as steps from unnest(failed_tasks) as f (id) group by f.id) n where t.id = n.id
$$;
