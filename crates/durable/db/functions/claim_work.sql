-- Lease the activities that have been due longest to the seats that ask, in order of waiting time, and say when the next is due.
-- Seats: one of `owners` (null: takes no session) and `session_ms` each. An activity without a session goes to any seat; one of a session to a
--        seat of the session's owner, or, if nobody has the session, to the first seat that may take one, which has it from then on.
-- ahead: how many more to lease for seats that are about to ask; they are the seats after the last. None while an activity of a session is queued:
--        who never waits would never see that its session has one.
-- lanes: which tags; null: all there are.
-- Rows:  one per activity, then one of nulls but for next_due_ms and, if nothing was left that is due, the time in due_us.
-- Locks: the rows claimed, skip locked; an advisory lock per session and then its row, both tried and never waited for: acks take rows of sessions
--        while they have others, so who waits here may wait in a circle.
-- floor, plans: as for claim_instances.
-- Index: worker_queue_due forwards from the floor in each lane; primary key to lock; rows are changed in place by their tuple id.
-- Cost:  4 of 5 000 due in 0.19 ms and 36 buffers, one in 0.16 ms and 12, none due in 0.08 ms. With a bitmap scan, which the planner prefers for an
--        empty table, 20 000 due cost 20 ms; joined by key instead of tuple id, 140 ms.
create or replace function {schema}.claim_work(
    lanes text[], lease_ms bigint, owners text[], session_ms bigint[], ahead integer, bound_us bigint
) returns table (
    next_due_ms float8, due_us bigint, seat integer, instance_id text, id bigint, lock_token uuid, attempt integer, work_item text
)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    bound     timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
    takers    text[] := array_remove(owners, null);
    wanted    integer := cardinality(owners);
    ids       bigint[];
    tids      tid[];
    sessions  text[];
    seats     integer[];
    found     record;
    place     integer;
    free      boolean[];
    holder    text;
    soonest   timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a crash of the server is an activity executed twice, which is allowed: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);
    -- Who may take an activity of a session changes from look to look, so what one passes by is not for another to pass by.
    if (bound_us is not null or ahead > 0) and exists (select from {schema}.worker_queue q where q.session_id is not null) then
        bound := '-infinity';
    else
        wanted := wanted + ahead;
    end if;
    if lanes is null then
        with recursive lane as (
            (select q.lane from {schema}.worker_queue q order by q.lane limit 1)
            union all
            select (select q.lane from {schema}.worker_queue q where q.lane > lane.lane order by q.lane limit 1)
            from lane where lane.lane is not null
        )
        select coalesce(array_agg(lane.lane), '{}') into lanes from lane where lane.lane is not null;
    end if;

    -- What may be taken, oldest first, and whether that is all that may be. More is read than wanted, because others may have the first in their hands
    -- this moment. What is due and not locked here is wanted by nobody, or in such hands: then the next is due now. Otherwise it is one of the future,
    -- or one that is leased until then, itself or its session: the later of both.
    with due as materialized (
        select c.* from unnest(lanes) as l (lane) cross join lateral (
            select q.instance_id, q.id, q.visible_at, q.session_id from {schema}.worker_queue q
            where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
              and (q.locked_until is null or q.locked_until <= now())
              and (q.session_id is null
                   or takers <> '{}' and coalesce((select s.worker_id = any (takers) from {schema}.sessions s
                                                   where s.session_id = q.session_id and s.locked_until > now()), true))
            order by q.visible_at limit wanted * 2 + 16) c
        order by c.visible_at, c.id limit wanted * 2 + 16
    ), mine as materialized (
        -- No more than wanted are locked: in the order in which they come, because sorting or numbering them here would lock them all first.
        select d.id, d.session_id, d.visible_at, q.tid from due d
        cross join lateral (select q.ctid as tid from {schema}.worker_queue q where q.instance_id = d.instance_id and q.id = d.id
                            and (q.locked_until is null or q.locked_until <= now()) for update skip locked) q
        limit wanted
    ), counted as materialized (
        select array_agg(m.id order by m.place) as ids, array_agg(m.tid order by m.place) as tids,
               array_agg(m.session_id order by m.place) as sessions, array_agg(m.place::int order by m.place) as seats,
               count(m.session_id) > 0 as sessionful, count(*) as taken
        from (select m.*, row_number() over (order by m.visible_at, m.id) as place from mine m) m
    )
    select c.ids, c.tids, c.sessions, case when not c.sessionful then c.seats end,
           case when (select count(*) from due) > c.taken then now()
                else (select min(least(future.visible_at, leased.until)) from unnest(lanes) as l (lane)
                      left join lateral (
                          select q.visible_at from {schema}.worker_queue q
                          where q.lane = l.lane and q.visible_at > now() order by q.visible_at limit 1) future on true
                      left join lateral (
                          select min(greatest(q.locked_until, (select s.locked_until from {schema}.sessions s
                                                               where s.session_id = q.session_id and s.worker_id <> all (takers)))) as until
                          from {schema}.worker_queue q
                          where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
                            and (q.session_id is null or takers <> '{}')
                            and (q.locked_until > now()
                                 or exists (select from {schema}.sessions s where s.session_id = q.session_id
                                            and s.locked_until > now() and s.worker_id <> all (takers)))) leased on true) end
    into ids, tids, sessions, seats, soonest from counted c;

    if ids is not null and seats is null then
        -- With sessions, who gets what is decided one by one.
        free := array_fill(true, array[wanted]);
        seats := array_fill(null::integer, array[cardinality(ids)]);
        for found in select m.place::int, m.session_id from unnest(sessions) with ordinality as m (session_id, place) loop
            if found.session_id is null then
                place := array_position(free, true);
            else
                -- Lock first, decide next: whoever had this lock before may have taken the session.
                soonest := now();
                continue when not pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || found.session_id, 2));
                continue when not exists (select from {schema}.sessions s where s.session_id = found.session_id for update skip locked)
                    and exists (select from {schema}.sessions s where s.session_id = found.session_id);
                holder := (select s.worker_id from {schema}.sessions s where s.session_id = found.session_id and s.locked_until > now());
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
            seats[found.place] := place;
        end loop;
    end if;

    if ids is not null then
        return query
        -- By their place in the table, which cannot change while they are locked.
        update {schema}.worker_queue q
        set lock_token = gen_random_uuid(), locked_until = now() + lease_ms * interval '1 ms', attempt_count = q.attempt_count + 1
        where q.ctid = any (tids) and seats[array_position(ids, q.id)] is not null
        returning null::float8, (extract(epoch from greatest(q.visible_at, 'epoch')) * 1000000)::bigint, seats[array_position(ids, q.id)] - 1, q.instance_id, q.id,
                  q.lock_token, q.attempt_count, q.work_item;
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$$;
