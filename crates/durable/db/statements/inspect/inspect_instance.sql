/* inspect_instance */
-- One instance with its current execution and its lease. $1 instance text  $2 the most bytes of an output bigint
-- Rows:  one; none if there is no such instance. An output above the limit is null: see `output_bytes`.
-- Index: primary keys.
select instance.orchestration_name, instance.orchestration_version, instance.parent_instance_id,
       instance.current_execution_id, instance.status, instance.custom_status, instance.custom_status_version,
       instance.created_at, greatest(instance.updated_at, execution.completed_at) as updated_at,
       execution.started_at, execution.completed_at,
       case when octet_length(execution.output) <= $2 then execution.output end as output,
       octet_length(execution.output)::bigint as output_bytes,
       lease.locked_until, lease.locked_until > now() as is_leased,
       coalesce(cardinality(lease.message_ids), 0)::bigint as leased_messages
from {schema}.instances instance
left join {schema}.executions execution
    on execution.instance_id = instance.instance_id and execution.execution_id = instance.current_execution_id
left join {schema}.instance_locks lease on lease.instance_id = instance.instance_id
where instance.instance_id = $1
