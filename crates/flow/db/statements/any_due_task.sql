/* any_due_task */
-- Whether a task may have taken too long.
-- Index: task_due.
select exists (select from {schema}.task t where t.due_at <= now() and t.due_at < 'infinity')
