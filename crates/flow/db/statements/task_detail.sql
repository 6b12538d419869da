/* task_detail */
-- The part of a task ($1) that never changes.
-- Index: primary keys.
select t.template_id, t.priority, t.created_at,
       k.context, k.initiator, k.source_system, k.reason, k.tags, k.correlation_id, k.parent_correlation_id
from {schema}.task t
join {schema}.task_detail k on k.task_id = t.id
where t.id = $1
