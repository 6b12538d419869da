/* get_instance_info */
-- One instance. $1 instance text
-- Index: primary keys.
select instance.orchestration_name,
       instance.orchestration_version,
       instance.current_execution_id,
       instance.status,
       execution.output,
       instance.parent_instance_id,
       (extract(epoch from instance.created_at) * 1000)::bigint as created_at,
       (extract(epoch from greatest(instance.updated_at, execution.completed_at)) * 1000)::bigint as updated_at
from {schema}.instances instance
left join {schema}.executions execution
    on execution.instance_id = instance.instance_id and execution.execution_id = instance.current_execution_id
where instance.instance_id = $1
