-- Deletes ended executions with their histories, but never the current execution of an instance. keep_last: keep so
-- many of the latest executions of each instance (null: no limit); before_ms: keep those that ended at this time or
-- later.
-- Locks: leases and then instances, as an ack does, the latter in the byte order of a write batch. The trigger on
--        `history` updates instances that are locked by then.
create or replace function {schema}.prune_executions(
    ids text[],
    keep_last bigint,
    before_ms bigint,
    out instances  bigint,
    out executions bigint,
    out events     bigint
)
language plpgsql
set search_path = reveille_own
as $$
begin
    perform from {schema}.instance_locks lease
    where lease.instance_id = any (ids)
    order by lease.instance_id
    for update;
    perform from {schema}.instances instance
    where instance.instance_id = any (ids)
    order by instance.instance_id collate "C"
    for update;
    select count(*) into instances from {schema}.instances instance where instance.instance_id = any (ids);

    with ranked as materialized (
        select execution.instance_id, execution.execution_id, execution.status, execution.completed_at,
               row_number() over (
                   partition by execution.instance_id order by execution.execution_id desc
               ) as recency
        from {schema}.executions execution
        where execution.instance_id = any (ids)
    ), deleted as (
        delete from {schema}.executions execution
        using ranked
        join {schema}.instances instance on instance.instance_id = ranked.instance_id
        where execution.instance_id = ranked.instance_id
          and execution.execution_id = ranked.execution_id
          and ranked.execution_id <> instance.current_execution_id
          and ranked.status <> 'Running'
          and (keep_last is null or ranked.recency > keep_last)
          and (before_ms is null or ranked.completed_at < to_timestamp(before_ms / 1000.0))
        returning execution.instance_id, execution.execution_id
    ), deleted_events as (
        delete from {schema}.history
        using deleted
        where history.instance_id = deleted.instance_id and history.execution_id = deleted.execution_id
        returning history.event_count
    )
    select (select count(*) from deleted),
           (select coalesce(sum(deleted_events.event_count), 0) from deleted_events)
    into executions, events;
end
$$;
