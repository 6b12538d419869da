/* import_copy_instances */
-- Copies instances, from $1 text to $2 text. Rows: how many.
-- Status and pinned version are those of the current execution. U+0001 is escaped, as in all text of the target.
with copied as (
    insert into {schema}.instances (
        instance_id, orchestration_name, orchestration_version, parent_instance_id, current_execution_id, status,
        pinned_version, custom_status_version, created_at, updated_at, custom_status
    )
    select replace(source.instance_id, chr(1), chr(1) || '1'),
           replace(source.orchestration_name, chr(1), chr(1) || '1'),
           replace(source.orchestration_version, chr(1), chr(1) || '1'),
           replace(source.parent_instance_id, chr(1), chr(1) || '1'),
           source.current_execution_id,
           coalesce(execution.status, 'Running'),
           least(execution.duroxide_version_major, 999999) * 1000000000000
               + least(execution.duroxide_version_minor, 999999) * 1000000::bigint
               + least(execution.duroxide_version_patch, 999999),
           source.custom_status_version,
           source.created_at,
           source.updated_at,
           replace(source.custom_status, chr(1), chr(1) || '1')
    from {source}.instances source
    left join {source}.executions execution
        on execution.instance_id = source.instance_id and execution.execution_id = source.current_execution_id
    where source.instance_id between $1 and $2
    returning 1
)
select count(*) from copied
