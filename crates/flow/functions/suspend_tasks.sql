-- Stops the scheduling of tasks in which steps have failed for good: what is ready waits, and so does what is to be tried again.
-- tasks: once for each step that failed.
-- Locks: the caller has those of the tasks; it waits for whoever claims one of their steps.
-- Cost:  the steps of these tasks.
create or replace function {schema}.suspend_tasks(failed_tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    update {schema}.task t set failed = t.failed + n.steps
    from (select f.id, count(*)::integer as steps from unnest(failed_tasks) as f (id) group by f.id) n where t.id = n.id;
    update {schema}.step s set due_at = 'infinity', state = case s.state when 'r' then 'p' else s.state end
    where s.task_id = any (failed_tasks) and s.state in ('r', 'w')
$$;
