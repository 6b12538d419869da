/* namespaces_of_tasks */
-- The namespaces of tasks.
-- $1 tasks uuid[]
-- Rows:  one for each namespace; none for tasks that do not exist.
-- Locks: none.
-- Index: task_pkey, namespace_pkey.
select distinct n.name
from {schema}.task t
join {schema}.namespace n on n.id = t.namespace_id
where t.id = any($1)
