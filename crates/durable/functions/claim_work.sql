-- Lease the activities that have been due longest to the seats that ask, in order of waiting time, and say when the next is due.
-- Seats: one of `owners` (null: takes no session) and `session_ms` each. An activity without a session goes to any seat; one of a session to a
--        seat of the session's owner, or, if nobody has the session, to the first seat that may take one, which has it from then on.
-- lanes: which tags; null: all there are.
-- Rows:  one per activity, then one of nulls but for next_due_ms and, if there was nothing free any more, the time in due_us.
-- Locks: the rows claimed, skip locked; an advisory lock per session, tried and never waited for.
-- floor: as for claim_instances.
create or replace function {schema}.claim_work(
    lanes text[], lease_ms bigint, owners text[], session_ms bigint[], floor_us bigint
) returns table (
    next_due_ms float8, due_us bigint, seat integer, instance_id text, id bigint, lock_token uuid, attempt integer, work_item text
)
language plpgsql
    set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
as $$
#variable_conflict use_column
declare
    bound      timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    takers     text[] := array_remove(owners, null);
    found      record;
    place      integer;
    free       boolean[] := array_fill(true, array[cardinality(owners)]);
    holder     text;
    ids        bigint[] := '{}';
    instances  text[] := '{}';
    seats      integer[] := '{}';
    soonest    timestamptz;
begin
    -- A claim lost in a crash of the server is an activity executed twice, which is allowed: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);
    if lanes is null then
        with recursive lane as (
            (select q.lane from {schema}.worker_queue q order by q.lane limit 1)
            union all
            select (select q.lane from {schema}.worker_queue q where q.lane > lane.lane order by q.lane limit 1)
            from lane where lane.lane is not null
        )
        select coalesce(array_agg(lane.lane), '{}') into lanes from lane where lane.lane is not null;
    end if;

    for found in
        select due.* from unnest(lanes) as l (lane) cross join lateral (
            select q.instance_id, q.id, q.visible_at, q.session_id from {schema}.worker_queue q
            where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
              and (q.locked_until is null or q.locked_until <= now())
              and (q.session_id is null
                   or takers <> '{}' and coalesce((select s.worker_id = any (takers) from {schema}.sessions s
                                                   where s.session_id = q.session_id and s.locked_until > now()), true))
            order by q.visible_at, q.id limit cardinality(owners) for update skip locked
        ) due
        order by due.visible_at, due.id limit cardinality(owners)
    loop
        if found.session_id is null then
            place := array_position(free, true);
        else
            -- Lock first, decide next: whoever had this lock before may have taken the session.
            continue when not pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || found.session_id, 2));
            holder := (select s.worker_id from {schema}.sessions s
                       where s.session_id = found.session_id and s.locked_until > now());
            place := (select min(s.place) from unnest(owners, free) with ordinality as s (owner, free, place)
                      where s.free and s.owner is not null and (holder is null or s.owner = holder));
            continue when place is null;
            insert into {schema}.sessions as s (session_id, worker_id, locked_until, last_activity_at)
            values (found.session_id, owners[place], now() + session_ms[place] * interval '1 ms', now())
            on conflict (session_id) do update
            set worker_id = excluded.worker_id, locked_until = excluded.locked_until, last_activity_at = now();
        end if;
        exit when place is null;
        free[place] := false;
        ids := ids || found.id;
        instances := instances || found.instance_id;
        seats := seats || place;
    end loop;

    if cardinality(ids) > 0 then
        return query
        with taken as (
            update {schema}.worker_queue q
            set lock_token = gen_random_uuid(), locked_until = now() + lease_ms * interval '1 ms', attempt_count = q.attempt_count + 1
            from unnest(instances, ids, seats) as m (instance_id, id, seat) where q.instance_id = m.instance_id and q.id = m.id
            returning (extract(epoch from q.visible_at) * 1000000)::bigint as due_us, m.seat, q.instance_id, q.id, q.lock_token,
                      q.attempt_count, q.work_item
        )
        select null::float8, t.due_us, t.seat - 1, t.instance_id, t.id, t.lock_token, t.attempt_count, t.work_item from taken t order by t.id;
    end if;

    select q.visible_at into soonest from unnest(lanes) as l (lane) cross join lateral (
        select q.visible_at from {schema}.worker_queue q
        where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
          and (q.locked_until is null or q.locked_until <= now())
          and (q.session_id is null
               or takers <> '{}' and coalesce((select s.worker_id = any (takers) from {schema}.sessions s
                                               where s.session_id = q.session_id and s.locked_until > now()), true))
        order by q.visible_at limit 1) q
    order by q.visible_at limit 1;
    if soonest is null then
        select min(least(future.visible_at, leased.until)) into soonest
        from unnest(lanes) as l (lane)
        left join lateral (
            select q.visible_at from {schema}.worker_queue q
            where q.lane = l.lane and q.visible_at > now() order by q.visible_at limit 1) future on true
        left join lateral (
            -- Due, and in somebody's hands: until its lease ends, or the lease of its session.
            select min(coalesce(q.locked_until,
                                (select s.locked_until from {schema}.sessions s where s.session_id = q.session_id))) as until
            from {schema}.worker_queue q
            where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
              and (q.session_id is null or takers <> '{}')
              and not (q.instance_id = any (instances) and q.id = any (ids))) leased on true;
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$$;
