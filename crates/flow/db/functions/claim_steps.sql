-- Claims the steps that have been due longest in some namespaces, those of a higher priority first, with all that their
-- handlers need; and says when the next is due.
-- Source: namespaces by name; steps by name, or all of them but those that are left out.
-- Order:  priority, then due time, whatever the names of the steps.
-- Reads:  if every step of the namespaces may be claimed, their queues, one per priority (step_due). Otherwise lanes
--         (step_lane_due): what may not be claimed, by its name or by the limit of its name, is not read. Either way
--         those that have steps, not those that ever had: see docs/decisions/0026-claims-read-what-is-there.md.
-- ScanBounds: of the queues or lanes that the process knows (in order), from where to read them, in microseconds of the
--         Unix epoch; null: everything. An old transaction keeps what was claimed in front of each, and the leases that
--         have ended early behind now, and without a floor every look would wade through both. So what is due later is
--         told by looks without one only.
-- Fence:  a number that no other claim has. Who never hears the answer finds the steps by it: see sql/lost_claims.sql.
-- Seats:  `wants`: steps at most; `workers`: who; `leases_ms`: for how long. Each seat gets a step before any gets a
--         second.
-- Limits: a lane that has one gives no more than that allows. What is due beyond it is rung by whatever makes room: see
--         functions/free_slots.sql.
-- Rows:   one per step, see functions/hand_out.sql; then one of nulls but for next_due_ms, the queues or lanes, up to
--         where each has been read, and whether anything was found in it.
-- Rings:  who watches one of their tasks.
-- Locks:  limits, in order; then steps, skip locked.
-- Commit: is not waited for to be on disk. A crash of the database may forget the newest claims, and their steps are
--         due again at once: what is said under them is refused.
drop function if exists {schema}.claim_steps(text[], text[], text[], integer[], bigint[], bigint, integer[], text[],
    bigint[]);
create or replace function {schema}.claim_steps(
    namespaces text[], names text[], left_out text[], known bigint[], bounds_us bigint[], claim bigint,
        wants integer[], workers text[], leases_ms bigint[]
)
returns table (
    next_due_ms float8, lanes bigint[], reached_us bigint[], stocked boolean[],
    seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer,
        slot integer, part integer,
    namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer,
        timeout_ms bigint, context text, correlation_id text, input text, checkpoint text,
    results text, guarded boolean
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    seats   integer[] := array(
        select w.seat::integer
        from unnest(wants) with ordinality as w (want, seat), generate_series(1, w.want) as round
        order by round, w.seat limit 1000);
    taken   integer := 0;
    got     integer;
    quotas  integer[];
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- Queues are read; otherwise lanes.
    whole   boolean;
    spaces  integer[];
    -- The ranges of what may be claimed, in order.
    froms   bigint[];
    tos     bigint[];
    -- Those of one priority in which something is due, the longest due first: from where each is read, the first step
    -- of each, and their limits.
    level   record;
    firsts  timestamptz[];
    -- All of them: see `level`.
    due_ids     bigint[];
    due_floors  timestamptz[];
    due_firsts  timestamptz[];
    due_spaces  integer[];
    due_names   integer[];
    -- What is claimed.
    tasks   uuid[] := '{}';
    steps   integer[] := '{}';
    whose   integer[] := '{}';
begin
    perform {schema}.age_plans();
    -- Whoever makes a limit counts what is under way: before this, or after it.
    lock table {schema}.step in row exclusive mode;
    spaces := array(select n.id from {schema}.namespace n where n.name = any (namespaces) order by n.id);
    whole := names is null and left_out = '{}'
        and not exists (select from {schema}.step_limit m where m.namespace_id = any (spaces) and m.name <> '');
    select r.froms, r.tos into froms, tos from {schema}.claimable_ranges(whole, spaces, names, left_out) r;

    select array_agg(l.id), coalesce(array_agg((extract(epoch from l.reached) * 1000000)::bigint), '{}'),
           coalesce(array_agg(l.due_at is not null), '{}'),
           min(l.due_at) filter (where not l.due),
           array_agg(l.id) filter (where l.due),
           array_agg(l.floor) filter (where l.due),
           array_agg(l.due_at) filter (where l.due)
    into lanes, reached_us, stocked, soonest, due_ids, due_floors, due_firsts
    from (
        select r.id, r.floor, r.due_at, coalesce(r.due_at <= now(), false) as due,
               case when r.due_at <= now() then r.due_at else now() end as reached
        from {schema}.first_due(whole, froms, tos, known, bounds_us) r
    ) l;
    if whole then
        due_spaces := array(
            select m.id
            from unnest(due_ids) with ordinality as d (id, place)
            left join {schema}.step_limit m on m.namespace_id = (d.id >> 40)::integer and m.name = ''
            order by d.place);
        due_names := array_fill(null::integer, array[coalesce(cardinality(due_ids), 0)]);
    else
        select coalesce(array_agg(l.space_limit_id order by d.place), '{}'), coalesce(array_agg(l.name_limit_id
            order by d.place), '{}') into due_spaces, due_names
        from unnest(due_ids) with ordinality as d (id, place)
        cross join lateral (select l.space_limit_id, l.name_limit_id from {schema}.step_lane l where l.id = d.id
            offset 0) l;
    end if;
    if array_remove(due_spaces || due_names, null) <> '{}' then
        perform from {schema}.step_limit m where m.id = any (due_spaces || due_names) order by m.id for update;
    end if;

    for level in
        select array_agg(d.id order by d.first) as ids, array_agg(d.floor order by d.first) as bounds,
            array_agg(d.first order by d.first) as firsts,
               array_agg(d.space_limit order by d.first) as spaces, array_agg(d.name_limit order by d.first) as names,
               bool_or(coalesce(d.space_limit, d.name_limit) is not null) as limited
        from unnest(due_ids, due_floors, due_firsts, due_spaces, due_names) as d (id, floor, first, space_limit,
            name_limit)
        group by d.id & 65535
        order by d.id & 65535 desc
    loop
        firsts := level.firsts;
        loop
            exit when taken = cardinality(seats);
            quotas := {schema}.share_out(whole, level.ids, firsts, level.spaces, level.names, level.limited,
                cardinality(seats) - taken);
            exit when quotas is null;
            with mine as materialized (
                select s.*, l.place as source, l.space_limit is not null or l.name_limit is not null as limited
                from unnest(level.ids, firsts, quotas, level.spaces, level.names) with ordinality as l (id, first,
                    quota, space_limit, name_limit, place)
                cross join lateral (
                    select q.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                            s.ready_at, s.since
                        from {schema}.step s
                        where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= now()
                            and s.due_at < 'infinity'
                        order by s.due_at limit l.quota for update skip locked
                    ) q
                    union all
                    select q.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                            s.ready_at, s.since
                        from {schema}.step s
                        where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= now()
                            and s.due_at < 'infinity'
                        order by s.due_at limit l.quota for update skip locked
                    ) q
                ) s
                where l.quota > 0
            ), claimed as (
                update {schema}.step s
                set state = 'i', fence = claim, published = null, attempt = s.attempt + 1, since = now(),
                    worker = workers[seats[m.place]],
                    ready_at = case when s.state in ('w', 'i') then s.due_at else s.ready_at end,
                    due_at = now() + least(leases_ms[seats[m.place]], d.timeout_ms) * interval '1 ms',
                    -- Whoever dies with the last attempt, or with room that others wait for, leaves it to the engine.
                    -- So does a lease that ends with the timeout: the engine ends that attempt.
                    lane_id = case when s.attempt + 1 < d.max_attempts and not m.limited
                        and coalesce(d.timeout_ms > leases_ms[seats[m.place]], true) then s.lane_id else 0 end
                from (select taken + (row_number() over (order by m.due_at))::integer as place, m.* from mine m) m
                cross join lateral (select t.template_id from {schema}.task t where t.id = m.task_id offset 0) t
                cross join lateral (
                    select d.max_attempts, d.timeout_ms from {schema}.definition d
                        where d.template_id = t.template_id and d.ordinal = m.slot offset 0
                ) d
                -- Locked, it stays where it is. One that has moved since this began is not seen there, and left to the
                -- next look.
                where s.ctid = m.tid
                returning m.*, s.ordinal
            ), lost as (
                -- Whoever had it is not heard of any more.
                insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at,
                    ended_at)
                select c.task_id, c.ordinal, c.fence, c.attempt, 'l', c.worker, c.ready_at, c.since, c.due_at
                    from claimed c where c.state = 'i'
            )
            select count(*), coalesce(max(c.place), taken), tasks || array_agg(c.task_id order by c.place),
                steps || array_agg(c.ordinal order by c.place),
                   whose || array_agg(seats[c.place] order by c.place),
                   array(select (select count(*)::integer from claimed c where c.source = i.i)
                       from generate_subscripts(level.ids, 1) as i (i) order by i.i)
            into got, taken, tasks, steps, whose, quotas
            from claimed c;
            exit when got = 0;
            if level.limited then
                update {schema}.step_limit m set running = m.running + n.got
                from (
                    select x.id, sum(g.got)::integer as got
                    from unnest(quotas, level.spaces, level.names) as g (got, space_limit, name_limit)
                    cross join unnest(array[g.space_limit, g.name_limit]) as x (id)
                    where x.id is not null
                    group by x.id
                ) n
                where m.id = n.id;
            end if;
            firsts := array(
                select case when l.got = 0 then l.first else f.due_at end
                from unnest(level.ids, level.bounds, firsts, quotas) with ordinality as l (id, floor, first, got, place)
                left join lateral (
                    (select s.due_at from {schema}.step s
                     where l.got > 0 and whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at < 'infinity'
                       and s.due_at <= case l.floor when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                    union all
                    (select s.due_at from {schema}.step s
                     where l.got > 0 and not whole and s.lane_id = l.id and s.due_at >= l.first
                         and s.due_at < 'infinity'
                       and s.due_at <= case l.floor when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                ) f on true
                order by l.place);
            -- What a limit has held back leaves room for others.
            exit when not level.limited;
        end loop;
        -- What a limit holds back is rung when there is room again.
        soonest := least(soonest, (
            select min(l.first)
            from unnest(firsts, level.spaces, level.names) as l (first, space_limit, name_limit)
            where taken = cardinality(seats) or not level.limited or not exists (
                select from {schema}.step_limit m where m.id in (l.space_limit, l.name_limit)
                    and m.running >= m.most)));
        -- Nobody is left who could take one.
        exit when taken = cardinality(seats) and soonest <= now();
    end loop;

    if taken > 0 then
        perform pg_notify({watch}, t.id::text) from {schema}.task t where t.id = any (tasks)
            and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query select null::float8, null::bigint[], null::bigint[], null::boolean[], h.*
            from {schema}.hand_out(tasks, steps, whose, leases_ms) h;
    end if;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$$;
