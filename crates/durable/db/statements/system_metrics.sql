/* get_system_metrics */
-- How many of everything. Reads instances and executions whole, and the histories of executions that have not ended.
select (select count(*) from {schema}.instances) as instances,
       (select count(*) from {schema}.instances where status = 'Running') as running,
       (select count(*) from {schema}.instances where status = 'Completed') as completed,
       (select count(*) from {schema}.instances where status = 'Failed') as failed,
       count(*) as executions,
       coalesce(sum(coalesce(execution.event_count, (
           select sum(history.event_count) from {schema}.history
           where history.instance_id = execution.instance_id and history.execution_id = execution.execution_id
       ))), 0)::bigint as events
from {schema}.executions execution
