/* get_execution_info */
-- What is known of an execution. $1 instance text  $2 execution bigint
-- Index: primary keys; the history of one that has not ended is counted.
select e.status, e.output, (extract(epoch from e.started_at) * 1000)::bigint as started_at,
       (extract(epoch from e.completed_at) * 1000)::bigint as completed_at,
       coalesce(e.event_count, (select sum(h.event_count) from {schema}.history h
                                where h.instance_id = e.instance_id and h.execution_id = e.execution_id), 0)::bigint as event_count
from {schema}.executions e where e.instance_id = $1 and e.execution_id = $2
