-- Claims the steps that have been due longest in some namespaces, those of a higher priority first, with all that their handlers need; and says when the next is due.
-- Source: namespaces by name; steps by name, or all of them.
-- Seats:  `wants`: steps at most; `workers`: who; `leases_ms`: for how long. Each seat gets a step before any gets a second.
-- Rows:   one per step; then one of nulls but for next_due_ms. `results` is a JSON object: the results of all steps before it.
-- Rings:  who watches one of their tasks.
-- Locks:  steps, skip locked.
-- Index:  step_due of each lane forwards; then primary keys.
-- Commit: is not waited for to be on disk. A crash of the database may forget the newest claims, and their steps are due again at once: what is said under them is refused. A fence is
--         not the next number but some later one, so that the claim after a crash does not have that of a claim that was forgotten.
create or replace function {schema}.claim_steps(namespaces text[], names text[], wants integer[], workers text[], leases_ms bigint[])
returns table (
    next_due_ms float8, seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer,
    namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text,
    results text
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    seats   integer[] := array(select w.seat::integer from unnest(wants) with ordinality as w (want, seat), generate_series(1, w.want) as round order by round, w.seat limit 1000);
    taken   integer := 0;
    lane    record;
    mine    record;
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- What is claimed.
    tasks   uuid[] := '{}';
    steps   integer[] := '{}';
begin
    for lane in
        select l.id
        from {schema}.namespace n
        join {schema}.step_lane l on l.namespace_id = n.id
        cross join lateral (select s.due_at from {schema}.step s
                            where s.lane_id = l.id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at limit 1) f
        where n.name = any (namespaces) and (names is null or l.name = any (names))
        order by l.priority desc, f.due_at
    loop
        exit when taken = cardinality(seats);
        for mine in
            select s.task_id, s.ordinal, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker, s.ready_at, s.since
            from {schema}.step s
            where s.lane_id = lane.id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at
            limit cardinality(seats) - taken for update skip locked
        loop
            taken := taken + 1;
            if mine.state = 'i' then
                -- Whoever had it is not heard of any more.
                insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, ended_at)
                values (mine.task_id, mine.ordinal, mine.fence, mine.attempt, 'l', mine.worker, mine.ready_at, mine.since, mine.due_at);
            end if;
            update {schema}.step s
            set state = 'i', fence = s.fence + 1 + floor(random() * 1000000000)::bigint, attempt = s.attempt + 1, since = now(), worker = workers[seats[taken]],
                ready_at = case when s.state in ('w', 'i') then s.due_at else s.ready_at end,
                due_at = now() + least(leases_ms[seats[taken]], d.timeout_ms) * interval '1 ms',
                -- Whoever dies with the last attempt leaves it to the engine.
                lane_id = case when s.attempt + 1 < d.max_attempts then s.lane_id else 0 end
            from {schema}.task t
            join {schema}.definition d on d.template_id = t.template_id and d.ordinal = mine.slot
            where s.task_id = mine.task_id and s.ordinal = mine.ordinal and t.id = mine.task_id;
            tasks := tasks || mine.task_id;
            steps := steps || mine.ordinal;
        end loop;
    end loop;

    if taken > 0 then
        perform pg_notify({watch_channel}, t.id::text) from {schema}.task t where t.id = any (tasks) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query
        with claimed as materialized (
            select n.place::integer, t.template_id, s.*
            from unnest(tasks, steps) with ordinality as n (task_id, ordinal, place)
            join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal
            join {schema}.task t on t.id = n.task_id
        )
        select null::float8, seats[c.place] - 1, least(leases_ms[seats[c.place]], d.timeout_ms), c.task_id, c.ordinal, c.fence, c.attempt, c.template_id,
               c.slot, c.part, n.name, d.name, d.name || case when c.part is null then '' else '_' || to_char(c.part, 'FM9999000') end, d.callable, d.initialization, d.max_attempts, d.timeout_ms,
               k.context, k.correlation_id, x.input, x.checkpoint, r.results
        from claimed c
        join {schema}.definition d on d.template_id = c.template_id and d.ordinal = c.slot
        join {schema}.template t on t.id = c.template_id
        join {schema}.namespace n on n.id = t.namespace_id
        join {schema}.task_detail k on k.task_id = c.task_id
        left join {schema}.step_data x on x.task_id = c.task_id and x.ordinal = c.ordinal
        cross join lateral (
            with recursive before (slot) as (
                select p.slot from unnest(d.parents) as p (slot)
                union
                select p.slot from before b
                join {schema}.definition o on o.template_id = c.template_id and o.ordinal = b.slot
                cross join unnest(o.parents) as p (slot)
            )
            select coalesce(json_object_agg(o.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end, a.result::json), '{}')::text as results
            from before b
            join {schema}.definition o on o.template_id = c.template_id and o.ordinal = b.slot
            cross join lateral (
                select s.ordinal, s.part, s.fence from {schema}.step s where s.task_id = c.task_id and s.ordinal = b.slot
                union all
                -- The parts beyond the first have numbers beyond the template's.
                select s.ordinal, s.part, s.fence from {schema}.step s
                where o.kind = 'w' and s.task_id = c.task_id and s.slot = b.slot
                  and s.ordinal > (select l.ordinal from {schema}.definition l where l.template_id = c.template_id order by l.ordinal desc limit 1)
            ) s
            join {schema}.attempt a on a.task_id = c.task_id and a.ordinal = s.ordinal and a.fence = s.fence and a.result is not null
        ) r
        order by c.place;
    end if;

    soonest := (select min(f.due_at) from {schema}.namespace n
                join {schema}.step_lane l on l.namespace_id = n.id
                cross join lateral (select s.due_at from {schema}.step s
                                    where s.lane_id = l.id and s.due_at < 'infinity'
                                    order by s.due_at limit 1) f
                where n.name = any (namespaces) and (names is null or l.name = any (names)));
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    seat := null;
    return next;
end
$$;
