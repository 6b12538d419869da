/* import_carry_instances */
-- Instances, from $1 text to $2 text. Rows: how many.
-- Status and pinned version are those of the current execution. U+0001 is escaped, as everywhere in the target.
with carried as (
    insert into {schema}.instances
        (instance_id, orchestration_name, orchestration_version, parent_instance_id, current_execution_id, status, pinned_version,
         custom_status_version, created_at, updated_at, custom_status)
    select replace(i.instance_id, chr(1), chr(1) || '1'), replace(i.orchestration_name, chr(1), chr(1) || '1'),
           replace(i.orchestration_version, chr(1), chr(1) || '1'), replace(i.parent_instance_id, chr(1), chr(1) || '1'),
           i.current_execution_id, coalesce(e.status, 'Running'),
           least(e.duroxide_version_major, 999999) * 1000000000000 + least(e.duroxide_version_minor, 999999) * 1000000::bigint
               + least(e.duroxide_version_patch, 999999),
           i.custom_status_version, i.created_at, i.updated_at, replace(i.custom_status, chr(1), chr(1) || '1')
    from {source}.instances i
    left join {source}.executions e on e.instance_id = i.instance_id and e.execution_id = i.current_execution_id
    where i.instance_id between $1 and $2
    returning 1
)
select count(*) from carried
