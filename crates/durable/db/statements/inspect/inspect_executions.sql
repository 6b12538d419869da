/* inspect_executions */
-- Executions of an instance, the latest first. $1 instance text  $2 before this one bigint  $3 at most so many bigint
-- Index: primary key, backwards; the events of an execution that has not ended are counted.
select execution.execution_id, execution.status, execution.started_at, execution.completed_at,
       octet_length(execution.output)::bigint as output_bytes,
       coalesce(execution.event_count, (
           select sum(history.event_count) from {schema}.history
           where history.instance_id = execution.instance_id and history.execution_id = execution.execution_id
       ), 0)::bigint as event_count
from {schema}.executions execution
where execution.instance_id = $1 and execution.execution_id < $2
order by execution.execution_id desc
limit $3
