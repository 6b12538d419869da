-- Lease the instances whose messages have been due longest, with all their due messages, and say when the next is due.
-- Rows:  one per instance, then one of nulls but for next_due_ms and, if there was nothing free any more, the time in due_us.
-- Locks: an advisory lock per instance, tried and never waited for. Everything read after it is decided by a later snapshot, so what another
--        claim did to the instance before is seen; and claims of other processes pass by.
-- floor: messages that were due before it are left to a look without one: what has been claimed and deleted in front of the live
--        rows stays in the index while any transaction is old enough to see it.
create or replace function {schema}.claim_instances(
    wanted integer, lease_ms bigint, min_version bigint, max_version bigint, floor_us bigint
) returns table (
    next_due_ms float8, due_us bigint, instance_id text, lock_token uuid, attempt integer, messages text[],
    orchestration_name text, orchestration_version text, execution_id bigint, generation bigint, last_event_id bigint,
    kv_keys text[], kv_values text[], kv_times bigint[]
)
language plpgsql
    set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
as $$
#variable_conflict use_column
declare
    bound   timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    mine    text[];
    leased  text[];
    strange text[];
    soonest timestamptz;
begin
    -- A claim lost in a crash of the server is a turn taken twice, of which one is acked: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);

    -- Several messages of one instance lie side by side, so a few times as many as wanted are read.
    mine := array(
        with due as materialized (
            select q.instance_id, q.visible_at, q.id from {schema}.orchestrator_queue q
            where q.visible_at <= now() and q.visible_at >= bound
              and coalesce((select l.locked_until from {schema}.instance_locks l where l.instance_id = q.instance_id), '-infinity') <= now()
              and (min_version is null or coalesce((select i.pinned_version between min_version and max_version
                                                    from {schema}.instances i where i.instance_id = q.instance_id), true))
            order by q.visible_at, q.id limit wanted * 8
        ), ranked as materialized (
            select d.instance_id from due d group by d.instance_id order by min(d.visible_at), min(d.id)
        )
        select r.instance_id from ranked r
        where pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || r.instance_id, 1)) limit wanted);

    if cardinality(mine) > 0 then
        -- Leases that have ended: their attempts count now.
        with over as (
            delete from {schema}.instance_locks l
            using (select o.instance_id from {schema}.instance_locks o
                   where o.instance_id = any (mine) and o.locked_until <= now() for update skip locked) o
            where l.instance_id = o.instance_id
            returning l.instance_id, l.message_ids
        )
        update {schema}.orchestrator_queue q set attempt_count = q.attempt_count + 1
        from over where q.instance_id = over.instance_id and q.id = any (over.message_ids);

        -- Messages that waited for a start are due if it has come.
        update {schema}.orchestrator_queue q set visible_at = now()
        from unnest(mine) as m (instance_id) where q.instance_id = m.instance_id and q.visible_at = 'infinity';

        return query
        with batch as materialized (
            select q.instance_id, min(q.visible_at) as due, max(q.attempt_count) + 1 as attempt,
                   array_agg(q.id order by q.visible_at, q.id) as ids,
                   array_agg(q.work_item order by q.visible_at, q.id) as items, bool_or(q.kind = 's') as starts
            from unnest(mine) as m (instance_id) join {schema}.orchestrator_queue q
                on q.instance_id = m.instance_id and q.visible_at <= now()
            group by q.instance_id
        ), known as materialized (
            select b.*, i.orchestration_name, i.orchestration_version, i.generation,
                   coalesce(i.current_execution_id, (select max(e.execution_id) from {schema}.executions e
                                                     where e.instance_id = b.instance_id)) as execution_id
            from batch b left join {schema}.instances i on i.instance_id = b.instance_id
        ), taken as (
            insert into {schema}.instance_locks (instance_id, lock_token, locked_until, message_ids)
            select k.instance_id, gen_random_uuid(), now() + lease_ms * interval '1 ms', k.ids
            from known k where k.starts or k.execution_id is not null
            on conflict (instance_id) do nothing
            returning instance_locks.instance_id, instance_locks.lock_token
        )
        select null::float8, (extract(epoch from k.due) * 1000000)::bigint, k.instance_id, t.lock_token, k.attempt, k.items,
               k.orchestration_name, k.orchestration_version, k.execution_id, k.generation,
               (select h.last_event_id from {schema}.history h
                where h.instance_id = k.instance_id and h.execution_id = k.execution_id order by h.event_id desc limit 1),
               kv.keys, kv.vals, kv.times
        from taken t join known k on k.instance_id = t.instance_id
        cross join lateral (select array_agg(s.key) as keys, array_agg(s.value) as vals, array_agg(s.last_updated_at_ms) as times
                            from {schema}.kv_store s where s.instance_id = k.instance_id) kv
        order by k.due;

        -- Messages to instances that nobody has started: they wait for the start, out of the way; messages to a queue of theirs are dropped.
        leased := array(select l.instance_id from {schema}.instance_locks l where l.instance_id = any (mine));
        strange := array(select m.instance_id from unnest(mine) as m (instance_id) where m.instance_id <> all (leased));
        if cardinality(strange) > 0 then
            with lost as materialized (
                select q.instance_id, bool_and(q.kind = 'q') as droppable from unnest(strange) as s (instance_id)
                join {schema}.orchestrator_queue q on q.instance_id = s.instance_id
                where not exists (select from {schema}.instances i where i.instance_id = s.instance_id)
                  and not exists (select from {schema}.executions e where e.instance_id = s.instance_id)
                group by q.instance_id having not bool_or(q.kind = 's')
            ), dropped as (
                delete from {schema}.orchestrator_queue q using lost where q.instance_id = lost.instance_id and lost.droppable
            )
            update {schema}.orchestrator_queue q set visible_at = 'infinity' from lost
            where q.instance_id = lost.instance_id and not lost.droppable and q.visible_at <= now();
        end if;
    end if;

    -- What is due and free now is more than was wanted, or in somebody's hands this moment.
    select q.visible_at into soonest from {schema}.orchestrator_queue q
    where q.visible_at <= now() and q.visible_at >= bound
      and coalesce((select l.locked_until from {schema}.instance_locks l where l.instance_id = q.instance_id), '-infinity') <= now()
      and (min_version is null or coalesce((select i.pinned_version between min_version and max_version
                                            from {schema}.instances i where i.instance_id = q.instance_id), true))
    order by q.visible_at limit 1;
    if soonest is null then
        -- Nothing: so the next due is a message of the future, or one whose instance is leased to somebody until then.
        soonest := least(
            (select q.visible_at from {schema}.orchestrator_queue q
             where q.visible_at > now() and q.visible_at < 'infinity' order by q.visible_at limit 1),
            (select min(l.locked_until) from {schema}.orchestrator_queue q
             join {schema}.instance_locks l on l.instance_id = q.instance_id
             where q.visible_at <= now() and q.visible_at >= bound and l.instance_id <> all (coalesce(leased, '{}'))));
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$$;
