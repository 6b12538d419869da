-- Lease the instances whose messages have been due longest, with all their due messages, and say when the next is due.
-- Rows:  one per instance, then one of nulls but for next_due_ms, whether something due waits for a lease to end (blocked), and, if nothing was left that
--        is due, the time in due_us.
-- Locks: an advisory lock per instance, tried and never waited for: claims of other processes pass by. What was read before it is read
--        again after it by a later snapshot, so what another claim did to the instance is seen.
-- floor: messages that were due before it are left to a look without one: what has been claimed and deleted in front of the live
--        rows stays in the index while any transaction is old enough to see it.
-- Plans: made once, perhaps while the tables were empty, and used when they are full. So the due are ordered by their time alone, which the index
--        gives; with the id as well they are all read and sorted. Lookups by key are lateral subqueries with `offset 0`, which keeps the
--        direction, and whole-table scans and joins are off. The messages of an instance are bounded by a pair, (instance_id, visible_at), which only the primary
--        key can serve: by the time alone, the planner takes an empty table's orchestrator_queue_due, and then reads what is due for everybody.
-- Index: orchestrator_queue_due forwards from the floor; primary keys of instance_locks and instances for each message read; the primary key of
--        orchestrator_queue for each instance taken; that of history backwards for its last row.
-- Cost:  with a million instances, ten million rows of history and a million future timers: 4 of 5 000 due in 0.6 ms and 244 buffers (0.3 ms to find,
--        0.3 ms to read and lease), none due in 0.05 ms and 10 buffers. `order by visible_at, id` read and sorted all 20 000 due: 25 ms.
create or replace function {schema}.claim_instances(
    wanted integer, lease_ms bigint, min_version bigint, max_version bigint, bound_us bigint
) returns table (
    next_due_ms float8, due_us bigint, instance_id text, lock_token uuid, attempt integer, messages text[],
    orchestration_name text, orchestration_version text, execution_id bigint, generation bigint, last_event_id bigint, had_executions boolean, blocked boolean
)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    bound   timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
    mine    text[];
    stale   boolean;
    taken   integer;
    soonest timestamptz;
    freed   timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a crash of the server is a turn taken twice, of which one is acked: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);

    -- Several messages of one instance lie side by side, so a few times as many as wanted are read. What is due and not taken is wanted by
    -- nobody, or in somebody's hands this moment: then the next is due now. Otherwise it is a message of the future, or one whose
    -- instance is leased to somebody until then.
    with due as materialized (
        select q.instance_id, q.visible_at, q.id, l.locked_until is not null as stale from {schema}.orchestrator_queue q
        left join lateral (select l.locked_until from {schema}.instance_locks l where l.instance_id = q.instance_id offset 0) l on true
        left join lateral (select i.pinned_version from {schema}.instances i where i.instance_id = q.instance_id offset 0) i on true
        where q.visible_at <= now() and q.visible_at >= bound and coalesce(l.locked_until <= now(), true)
          and (min_version is null or coalesce(i.pinned_version between min_version and max_version, true))
        order by q.visible_at limit wanted * 8
    ), ranked as materialized (
        select d.instance_id, bool_or(d.stale) as stale from due d group by d.instance_id order by min(d.visible_at), min(d.id)
    ), locked as materialized (
        select r.instance_id, r.stale from ranked r
        where pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || r.instance_id, 1))
          -- An ended lease that somebody has locked, itself or a message of it, must not take the place of an instance that is free.
          and (not r.stale or (
               exists (select from {schema}.instance_locks l where l.instance_id = r.instance_id for update skip locked)
               and cardinality(array(select 1 from {schema}.orchestrator_queue q
                                     where q.instance_id = r.instance_id and (q.instance_id, q.visible_at) <= (r.instance_id, now()) for update skip locked))
                   = (select count(*) from {schema}.orchestrator_queue q
                      where q.instance_id = r.instance_id and (q.instance_id, q.visible_at) <= (r.instance_id, now()))))
        limit wanted
    ), counted as materialized (
        select array_agg(k.instance_id) as mine, bool_or(k.stale) as stale, count(*) as taken from locked k
    )
    select c.mine, c.stale,
           case when (select count(*) from ranked) > c.taken or (select count(*) from due) >= wanted * 8 then now()
                else (select q.visible_at from {schema}.orchestrator_queue q
                      where q.visible_at > now() and q.visible_at < 'infinity' order by q.visible_at limit 1) end,
           case when (select count(*) from ranked) <= c.taken and (select count(*) from due) < wanted * 8 then
               (select min(l.locked_until) from {schema}.orchestrator_queue q
                cross join lateral (select l.locked_until from {schema}.instance_locks l
                                    where l.instance_id = q.instance_id and l.locked_until > now() offset 0) l
                where q.visible_at <= now() and q.visible_at >= bound) end
    into mine, stale, soonest, freed from counted c;
    blocked := freed is not null;
    soonest := least(soonest, freed);

    if mine is not null then
        if stale then
            -- Leases that have ended: their attempts count now.
            with over as (
                delete from {schema}.instance_locks l where l.instance_id = any (mine) and l.locked_until <= now()
                returning l.instance_id, l.message_ids
            )
            update {schema}.orchestrator_queue q set attempt_count = q.attempt_count + 1 where q.ctid = any (array(
                select q.tid from over o cross join lateral (
                    select q.ctid as tid from {schema}.orchestrator_queue q
                    where q.instance_id = o.instance_id and (q.instance_id, q.visible_at) <= (o.instance_id, now()) and q.id = any (o.message_ids) offset 0) q));
        end if;

        return query
        with batch as materialized (
            select m.instance_id, b.* from unnest(mine) as m (instance_id)
            cross join lateral (
                select min(q.visible_at) as due, max(q.attempt_count) + 1 as attempt, array_agg(q.id) as ids,
                       array_agg(q.work_item order by q.visible_at, q.id) as items, bool_or(q.kind = 's') as starts
                from {schema}.orchestrator_queue q where q.instance_id = m.instance_id and (q.instance_id, q.visible_at) <= (m.instance_id, now())) b
            where b.due is not null
        ), known as materialized (
            select b.*, i.orchestration_name, i.orchestration_version, i.generation, i.current_execution_id > 1 or i.status <> 'Running' as had_executions,
                   coalesce(i.current_execution_id, (select max(e.execution_id) from {schema}.executions e
                                                     where e.instance_id = b.instance_id)) as execution_id
            from batch b
            left join lateral (select * from {schema}.instances i where i.instance_id = b.instance_id offset 0) i on true
            -- A lease that this statement sees counts, although its ack may commit before the insert: then the messages seen are gone too.
            left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = b.instance_id offset 0) l on true
            where l.instance_id is null
        ), taken as (
            insert into {schema}.instance_locks (instance_id, lock_token, locked_until, message_ids)
            select k.instance_id, gen_random_uuid(), now() + lease_ms * interval '1 ms', k.ids
            from known k where k.starts or k.execution_id is not null
            on conflict (instance_id) do nothing
            returning instance_locks.instance_id, instance_locks.lock_token
        )
        select null::float8, (extract(epoch from greatest(k.due, 'epoch')) * 1000000)::bigint, k.instance_id, t.lock_token, k.attempt, k.items,
               k.orchestration_name, k.orchestration_version, k.execution_id, k.generation,
               (select h.last_event_id from {schema}.history h
                where h.instance_id = k.instance_id and h.execution_id = k.execution_id order by h.event_id desc limit 1), k.had_executions, null::boolean
        from taken t join known k on k.instance_id = t.instance_id order by k.due;
        get diagnostics taken = row_count;

        if taken < cardinality(mine) then
            -- Messages to instances that nobody has started yet: they wait for the start, out of the way. If all that are due are to a queue, and nobody is
            -- going to start the instance, they are dropped.
            with lost as materialized (
                select q.instance_id, bool_and(q.kind = 'q' or q.kind = 'm' and q.visible_at > now()) as droppable,
                       array_agg(q.tid) filter (where q.visible_at <= now()) as tids
                from unnest(mine) as m (instance_id)
                cross join lateral (select q.instance_id, q.kind, q.visible_at, q.ctid as tid from {schema}.orchestrator_queue q
                                    where q.instance_id = m.instance_id and (q.instance_id, q.visible_at) < (m.instance_id, 'infinity') offset 0) q
                where not exists (select from {schema}.instances i where i.instance_id = m.instance_id)
                  and not exists (select from {schema}.executions e where e.instance_id = m.instance_id)
                  -- Nor those that somebody has leased with the start, which has come since this claim began.
                  and not exists (select from {schema}.instance_locks l where l.instance_id = m.instance_id)
                group by q.instance_id having not bool_or(q.kind = 's' and q.visible_at <= now())
            ), dropped as (
                delete from {schema}.orchestrator_queue q
                where q.ctid = any (array(select t.tid from lost, unnest(lost.tids) as t (tid) where lost.droppable))
            )
            update {schema}.orchestrator_queue q set visible_at = 'infinity'
            where q.ctid = any (array(select t.tid from lost, unnest(lost.tids) as t (tid) where not lost.droppable));
            soonest := now();
        end if;
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$$;
