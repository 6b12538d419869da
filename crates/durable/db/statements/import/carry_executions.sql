/* import_carry_executions */
-- Executions of the instances from $1 text to $2 text. Rows: how many.
-- The source does not say when an execution was continued as new: that is when its last event was written.
with carried as (
    insert into {schema}.executions (instance_id, execution_id, status, event_count, started_at, completed_at, output)
    select replace(e.instance_id, chr(1), chr(1) || '1'), e.execution_id, e.status,
           case when e.status <> 'Running' then h.events end, e.started_at,
           case when e.status <> 'Running' then coalesce(e.completed_at, h.last_at) end, replace(e.output, chr(1), chr(1) || '1')
    from {source}.executions e
    cross join lateral (
        select count(*) as events, max(h.created_at) as last_at from {source}.history h
        where e.status <> 'Running' and h.instance_id = e.instance_id and h.execution_id = e.execution_id) h
    where e.instance_id between $1 and $2
    returning 1
)
select count(*) from carried
