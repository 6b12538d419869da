/* get_instance_info */
-- What is known of an instance. $1 instance text
-- Index: primary keys.
select i.orchestration_name, i.orchestration_version, i.current_execution_id, i.status, e.output, i.parent_instance_id,
       (extract(epoch from i.created_at) * 1000)::bigint as created_at,
       (extract(epoch from greatest(i.updated_at, e.completed_at)) * 1000)::bigint as updated_at
from {schema}.instances i
left join {schema}.executions e on e.instance_id = i.instance_id and e.execution_id = i.current_execution_id
where i.instance_id = $1
