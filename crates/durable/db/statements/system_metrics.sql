/* get_system_metrics */
-- How many of everything. Reads instances and executions whole, and of the histories only those of executions that have not ended.
select (select count(*) from {schema}.instances) as instances,
       (select count(*) from {schema}.instances where status = 'Running') as running,
       (select count(*) from {schema}.instances where status = 'Completed') as completed,
       (select count(*) from {schema}.instances where status = 'Failed') as failed,
       count(*) as executions,
       coalesce(sum(coalesce(e.event_count, (select sum(h.event_count) from {schema}.history h
                                             where h.instance_id = e.instance_id and h.execution_id = e.execution_id))), 0)::bigint as events
from {schema}.executions e
