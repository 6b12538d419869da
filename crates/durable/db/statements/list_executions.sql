/* list_executions */
-- The executions of an instance, in order. $1 instance text
-- Index: primary key.
select e.execution_id from {schema}.executions e where e.instance_id = $1 order by e.execution_id
