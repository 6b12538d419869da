/* import_copy_executions */
-- Copies the executions of the instances from $1 text to $2 text. Rows: how many.
-- The source does not record when an execution continued as new: the time of its last event is used.
with copied as (
    insert into {schema}.executions (instance_id, execution_id, status, event_count, started_at, completed_at, output)
    select replace(source.instance_id, chr(1), chr(1) || '1'),
           source.execution_id,
           source.status,
           case when source.status <> 'Running' then events.event_count end,
           source.started_at,
           case when source.status <> 'Running' then coalesce(source.completed_at, events.last_at) end,
           replace(source.output, chr(1), chr(1) || '1')
    from {source}.executions source
    cross join lateral (
        select count(*) as event_count, max(event.created_at) as last_at
        from {source}.history event
        where source.status <> 'Running'
          and event.instance_id = source.instance_id
          and event.execution_id = source.execution_id
    ) as events
    where source.instance_id between $1 and $2
    returning 1
)
select count(*) from copied
