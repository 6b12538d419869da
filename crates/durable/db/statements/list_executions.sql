/* list_executions */
-- The executions of an instance, in order. $1 instance text
-- Index: primary key.
select execution.execution_id from {schema}.executions execution
where execution.instance_id = $1
order by execution.execution_id
