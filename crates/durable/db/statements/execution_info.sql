/* get_execution_info */
-- One execution. $1 instance text  $2 execution bigint
-- Index: primary keys; the events of an execution that has not ended are counted.
select execution.status,
       execution.output,
       (extract(epoch from execution.started_at) * 1000)::bigint as started_at,
       (extract(epoch from execution.completed_at) * 1000)::bigint as completed_at,
       coalesce(execution.event_count, (
           select sum(history.event_count) from {schema}.history
           where history.instance_id = execution.instance_id and history.execution_id = execution.execution_id
       ), 0)::bigint as event_count
from {schema}.executions execution
where execution.instance_id = $1 and execution.execution_id = $2
