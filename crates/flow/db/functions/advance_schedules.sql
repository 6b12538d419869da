-- Advances schedules that were read, each fenced by its version and next tick then.
-- versions, froms: the version and the next tick that were read.
-- nexts:      the next tick now; null: none. retries_ms: try again after this time, and not at the next tick; null: at
--             the tick.
-- lasts:      the last tick that ran, if any did; `last_tasks` the last task it made, `last_errors` why it made none.
--             These are stored even if the schedule was changed since.
-- Outcomes:   advanced <milliseconds until it is due>, without a number if never. changed: another server advanced it,
--             a user changed it, or it is gone.
-- Locks:      the schedules, in order. Waits: no transaction holds one for longer than a statement.
create or replace function {schema}.advance_schedules(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    ids uuid[], versions bigint[], froms timestamptz[], nexts timestamptz[], retries_ms bigint[],
    lasts timestamptz[], last_tasks uuid[], last_errors text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    current uuid[];
begin
    perform from {schema}.schedule s where s.id = any (ids) order by s.id for update;

    current := array(
        select s.id
        from unnest(ids, versions, froms) as read (id, version, from_at)
        join {schema}.schedule s on s.id = read.id and s.version = read.version and s.next_at = read.from_at);

    update {schema}.schedule s
    set next_at = case when s.id = any (current) then coalesce(ran.next_at, 'infinity') else s.next_at end,
        due_at = case when s.id = any (current)
            then coalesce(now() + ran.retry_ms * interval '1 ms', ran.next_at, 'infinity') else s.due_at end,
        last_at = case when ran.newest then ran.last_at else s.last_at end,
        last_task = case when ran.newest then coalesce(ran.task_id, s.last_task) else s.last_task end,
        last_error = case when ran.newest then ran.error else s.last_error end
    from (
        select n.*, n.last_at >= coalesce(o.last_at, n.last_at) as newest
        from unnest(ids, nexts, retries_ms, lasts, last_tasks, last_errors)
            as n (id, next_at, retry_ms, last_at, task_id, error)
        join {schema}.schedule o on o.id = n.id
    ) ran
    where s.id = ran.id and (ran.newest or s.id = any (current));

    outcomes := array(
        select case when read.id = any (current) then concat_ws(' ', 'advanced', (
                   select greatest(extract(epoch from s.due_at - now()) * 1000, 0)::bigint
                   from {schema}.schedule s
                   where s.id = read.id and s.due_at < 'infinity'))
               else 'changed' end
        from unnest(ids) with ordinality as read (id, index)
        order by read.index);
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
