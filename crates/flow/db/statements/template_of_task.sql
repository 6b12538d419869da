/* template_of_task */
-- The template of a task ($1).
select t.template_id from {schema}.task t where t.id = $1
