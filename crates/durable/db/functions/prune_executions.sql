-- Removes executions that have ended, with their histories, but never an instance's current one. keep_last: nor the last so many (null: none);
-- before_ms: nor those that ended later.
-- Locks: leases and then instances, as an ack does, the latter in the byte order of a flight; histories when nobody else can want them. The trigger on
--        `history` changes instances that are locked by then.
create or replace function {schema}.prune_executions(
    ids text[], keep_last bigint, before_ms bigint, out instances bigint, out executions bigint, out events bigint
)
language plpgsql set search_path = reveille_own
as $$
begin
    perform from {schema}.instance_locks l where l.instance_id = any (ids) order by l.instance_id for update;
    perform from {schema}.instances i where i.instance_id = any (ids) order by i.instance_id collate "C" for update;
    select count(*) into instances from {schema}.instances i where i.instance_id = any (ids);
    with old as materialized (
        select e.instance_id, e.execution_id, e.status, e.completed_at,
               row_number() over (partition by e.instance_id order by e.execution_id desc) as newest
        from {schema}.executions e where e.instance_id = any (ids)
    ), gone as (
        delete from {schema}.executions e using old o join {schema}.instances i on i.instance_id = o.instance_id
        where e.instance_id = o.instance_id and e.execution_id = o.execution_id
          and o.execution_id <> i.current_execution_id and o.status <> 'Running'
          and (keep_last is null or o.newest > keep_last)
          and (before_ms is null or o.completed_at < to_timestamp(before_ms / 1000.0))
        returning e.instance_id, e.execution_id
    ), forgotten as (
        delete from {schema}.history h using gone g where h.instance_id = g.instance_id and h.execution_id = g.execution_id
        returning h.event_count
    )
    select (select count(*) from gone), (select coalesce(sum(f.event_count), 0) from forgotten f) into executions, events;
end
$$;
