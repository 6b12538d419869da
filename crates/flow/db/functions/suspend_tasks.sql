-- Suspends the scheduling of tasks in which steps have failed permanently: ready steps and those that wait for a retry
-- are not due any more. Steps in progress may end; the engine watches their leases.
-- failed_tasks: once for each step that failed.
-- Locks: the caller holds those of the tasks; waits for claims of their steps.
-- Cost:  the steps of these tasks, once.
create or replace function {schema}.suspend_tasks(failed_tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    -- A task with an earlier failure is suspended already.
    update {schema}.step s
    set due_at = case s.state when 'in_progress' then s.due_at else 'infinity' end,
        state = case s.state when 'ready' then 'pending' else s.state end,
        queue_id = case s.state when 'in_progress' then 0 else s.queue_id end,
        since = case s.state when 'ready' then now() else s.since end
    from {schema}.task t
    where t.id = any (failed_tasks) and t.failed = 0
      and s.task_id = t.id and s.state in ('ready', 'waiting_for_retry', 'in_progress');
    update {schema}.task t
    set failed = t.failed + failures.steps
    from (
        select f.id, count(*)::integer as steps from unnest(failed_tasks) as f (id) group by f.id
    ) failures
    where t.id = failures.id
$$;
