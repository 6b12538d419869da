-- Takes up the scheduling of tasks again in which no failure is left: what could run is due now.
-- Locks: the caller has those of the tasks.
create or replace function {schema}.resume_tasks(tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    update {schema}.step s set due_at = now(), state = case s.state when 'p' then 'r' else s.state end, ready_at = now(), since = now()
    from {schema}.task t
    where t.id = any (tasks) and t.failed = 0 and t.state = 'o' and s.task_id = t.id and s.due_at = 'infinity' and (s.state = 'p' and s.waiting = 0 or s.state = 'w')
$$;
