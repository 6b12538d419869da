-- Advances schedules that were looked at, each fenced by what it was then: of that version (`versions`), with that tick next (`froms`).
-- nexts:    the next tick now; null: there is none. retries_ms: look again that much later, and not at the next tick; null: at the tick.
-- lasts:    the last tick that ran, if any did; `last_tasks` the last task that was made, `last_errors` why the last tick made none. That is noted even if somebody has changed the schedule since.
-- Outcomes: o and how many milliseconds it is until it is due, nothing for never. l: somebody else has advanced or changed it, or it is gone.
-- Locks:    the schedules, in order. It waits: nobody has one for longer than a statement.
create or replace function {schema}.advance_schedules(
    flight uuid, channels text[], payloads text[], patient boolean,
    ids uuid[], versions bigint[], froms timestamptz[], nexts timestamptz[], retries_ms bigint[], lasts timestamptz[], last_tasks uuid[], last_errors text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    held uuid[];
begin
    perform from {schema}.schedule s where s.id = any (ids) order by s.id for update;

    held := array(
        select s.id from unnest(ids, versions, froms) as n (id, version, from_at)
        join {schema}.schedule s on s.id = n.id and s.version = n.version and s.next_at = n.from_at);

    update {schema}.schedule s
    set next_at = case when s.id = any (held) then coalesce(n.next_at, 'infinity') else s.next_at end,
        due_at = case when s.id = any (held) then coalesce(now() + n.retry_ms * interval '1 ms', n.next_at, 'infinity') else s.due_at end,
        last_at = case when n.newest then n.last_at else s.last_at end,
        last_task = case when n.newest then coalesce(n.task_id, s.last_task) else s.last_task end,
        last_error = case when n.newest then n.error else s.last_error end
    from (select n.*, n.last_at >= coalesce(o.last_at, n.last_at) as newest
          from unnest(ids, nexts, retries_ms, lasts, last_tasks, last_errors) as n (id, next_at, retry_ms, last_at, task_id, error)
          join {schema}.schedule o on o.id = n.id) n
    where s.id = n.id and (n.newest or s.id = any (held));

    outcomes := array(
        select case when n.id = any (held) then 'o' || coalesce((
                   select greatest(extract(epoch from s.due_at - now()) * 1000, 0)::bigint::text from {schema}.schedule s where s.id = n.id and s.due_at < 'infinity'), '')
               else 'l' end
        from unnest(ids) with ordinality as n (id, place) order by n.place);
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
