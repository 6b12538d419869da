-- Claims the steps that have been due longest in some namespaces, those of a higher priority first, with all that their handlers need; and says when the next is due.
-- Source: namespaces by name; steps by name, or all of them but those that are left out.
-- Floors: of the lanes that the process knows (in order), from where to read them, in microseconds of the Unix epoch; null: everything. An old transaction keeps what was claimed in front of
--         each lane, and the leases that have ended early behind now, and without a floor every look would wade through both. So what is due later is told by looks without one only.
-- Fence:  a number that no other claim has. Who never hears the answer finds the steps by it: see sql/lost_claims.sql.
-- Seats:  `wants`: steps at most; `workers`: who; `leases_ms`: for how long. Each seat gets a step before any gets a second.
-- Limits: a lane that has one gives no more than that allows. What is due beyond it is rung by whatever makes room: see functions/free_slots.sql.
-- Rows:   one per step, see functions/hand_out.sql; then one of nulls but for next_due_ms, the lanes and up to where each has been read.
-- Rings:  who watches one of their tasks.
-- Locks:  limits, in order; then steps, skip locked.
-- Index:  step_due of each lane forwards; then primary keys. Beside 1 000 000 finished tasks a claim of one step reads 108 pages, in 0.3 ms; of 500 steps from 5 002 lanes 70 ms, 20 of them for the lanes. Each lane's steps are claimed by one statement, where they lie (tid scan): 64 steps take 1.9 ms without what they are handed out with, one by one and by their keys 3.2.
-- Commit: is not waited for to be on disk. A crash of the database may forget the newest claims, and their steps are due again at once: what is said under them is refused.
create or replace function {schema}.claim_steps(
    namespaces text[], names text[], left_out text[], known integer[], floors_us bigint[], claim bigint, wants integer[], workers text[], leases_ms bigint[]
)
returns table (
    next_due_ms float8, lanes integer[], reached_us bigint[],
    seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer,
    namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text,
    results text, guarded boolean
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    seats   integer[] := array(select w.seat::integer from unnest(wants) with ordinality as w (want, seat), generate_series(1, w.want) as round order by round, w.seat limit 1000);
    taken   integer := 0;
    room    integer;
    got     integer;
    first   timestamptz;
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- The lanes in which something is due, those of a higher priority first: from where they are read, the first step of each, and their limits.
    places  integer[];
    floors  timestamptz[];
    firsts  timestamptz[];
    spaces  integer[];
    limits  integer[];
    limited boolean;
    -- What is claimed.
    tasks   uuid[] := '{}';
    steps   integer[] := '{}';
    whose   integer[] := '{}';
begin
    perform {schema}.age_plans();
    -- Whoever makes a limit counts what is under way: before this, or after it.
    lock table {schema}.step in row exclusive mode;
    select array_agg(l.id), coalesce(array_agg((extract(epoch from case when l.due then l.due_at else now() end) * 1000000)::bigint), '{}'), min(l.due_at) filter (where not l.due),
           array_agg(l.id) filter (where l.due), array_agg(l.floor) filter (where l.due), array_agg(l.due_at) filter (where l.due),
           array_agg(l.space_limit_id) filter (where l.due), array_agg(l.name_limit_id) filter (where l.due)
    into lanes, reached_us, soonest, places, floors, firsts, spaces, limits
    from (
        select l.id, k.floor, f.due_at, coalesce(f.due_at <= now(), false) as due, l.space_limit_id, l.name_limit_id
        from (select n.id from {schema}.namespace n where n.name = any (namespaces) offset 0) n
        cross join lateral (select l.* from {schema}.step_lane l where l.namespace_id = n.id and (names is null or l.name = any (names)) and l.name <> all (left_out) offset 0) l
        -- Found by halves: a template may have 10 000 steps, and each its lane.
        cross join lateral (select width_bucket(l.id, known) as place) w
        cross join lateral (select coalesce(case when known[w.place] = l.id then to_timestamp(floors_us[w.place] / 1000000::float8) end, '-infinity') as floor offset 0) k
        left join lateral (
            select s.due_at from {schema}.step s
            where s.lane_id = l.id and s.due_at >= k.floor and s.due_at < 'infinity' and s.due_at <= case k.floor when '-infinity' then 'infinity' else now() end order by s.due_at limit 1
        ) f on true
        order by l.priority desc, f.due_at
    ) l;
    if array_remove(spaces || limits, null) <> '{}' then
        perform from {schema}.step_limit m where m.id = any (spaces || limits) order by m.id for update;
    end if;

    for place in 1 .. coalesce(cardinality(places), 0) loop
        first := firsts[place];
        limited := spaces[place] is not null or limits[place] is not null;
        room := cardinality(seats) - taken;
        if limited then
            room := least(room, (select min(m.most - m.running) from {schema}.step_limit m where m.id in (spaces[place], limits[place])));
            -- It is rung when there is room again.
            continue when room <= 0 and taken < cardinality(seats);
        end if;
        got := 0;
        if room > 0 then
            with mine as materialized (
                select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker, s.ready_at, s.since
                from {schema}.step s where s.lane_id = places[place] and s.due_at >= first and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at
                limit room for update skip locked
            ), claimed as (
                update {schema}.step s
                set state = 'i', fence = claim, published = null, attempt = s.attempt + 1, since = now(), worker = workers[seats[m.place]],
                    ready_at = case when s.state in ('w', 'i') then s.due_at else s.ready_at end,
                    due_at = now() + least(leases_ms[seats[m.place]], d.timeout_ms) * interval '1 ms',
                    -- Whoever dies with the last attempt, or with room that others wait for, leaves it to the engine. So does a lease that ends with the timeout: the engine ends that attempt.
                    lane_id = case when s.attempt + 1 < d.max_attempts and not limited and coalesce(d.timeout_ms > leases_ms[seats[m.place]], true) then s.lane_id else 0 end
                from (select taken + (row_number() over (order by m.due_at))::integer as place, m.* from mine m) m
                cross join lateral (select t.template_id from {schema}.task t where t.id = m.task_id offset 0) t
                cross join lateral (select d.max_attempts, d.timeout_ms from {schema}.definition d where d.template_id = t.template_id and d.ordinal = m.slot offset 0) d
                -- Locked, it stays where it is. One that has moved since this began is not seen there, and left to the next look.
                where s.ctid = m.tid
                returning m.*, s.ordinal
            ), lost as (
                -- Whoever had it is not heard of any more.
                insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, ended_at)
                select c.task_id, c.ordinal, c.fence, c.attempt, 'l', c.worker, c.ready_at, c.since, c.due_at from claimed c where c.state = 'i'
            )
            select count(*), coalesce(max(c.place), taken), tasks || array_agg(c.task_id order by c.place), steps || array_agg(c.ordinal order by c.place),
                   whose || array_agg(seats[c.place] order by c.place)
            into got, taken, tasks, steps, whose
            from claimed c;
        end if;
        if got > 0 then
            if limited then
                update {schema}.step_limit m set running = m.running + got where m.id in (spaces[place], limits[place]);
                continue when got = room and taken < cardinality(seats);
            end if;
            first := (
                select s.due_at from {schema}.step s
                where s.lane_id = places[place] and s.due_at >= first and s.due_at < 'infinity' and s.due_at <= case floors[place] when '-infinity' then 'infinity' else now() end
                order by s.due_at limit 1);
        end if;
        soonest := least(soonest, first);
        -- Nobody is left who could take one.
        exit when taken = cardinality(seats) and first <= now();
    end loop;

    if taken > 0 then
        perform pg_notify({watch}, t.id::text) from {schema}.task t where t.id = any (tasks) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query select null::float8, null::integer[], null::bigint[], h.* from {schema}.hand_out(tasks, steps, whose, leases_ms) h;
    end if;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$$;
