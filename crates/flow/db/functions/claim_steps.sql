-- Claims the steps that have been due longest in some namespaces, higher priorities first, with all that their handlers
-- need; and answers when the next step is due.
-- names:   the names of the steps; null: all but those in `left_out`.
-- Order:   priority, then due time, whatever the names of the steps.
-- Reads:   if every step of the namespaces may be claimed, their namespace queues, one per priority
--          (step_due_in_namespace). Otherwise step queues (step_due_in_queue), so that steps that may not be claimed,
--          by name or by the limit of their name, are not read. Either way only queues that have steps: see
--          docs/decisions/0026-claims-find-queues-in-the-index.md.
-- Bounds:  `known` are the queues that the process knows, in order, and `bounds_us` where to begin to read each, in
--          microseconds of the Unix epoch; null: from the first. An old transaction keeps dead entries of claimed steps
--          before the bound and of leases that ended early after now, and every unbounded scan reads through both. So
--          only unbounded scans look for steps that are due later.
-- Fence:   `claim` is unique to this claim. If its answer is never received, the steps are found by it: see
--          statements/unanswered_claims.sql.
-- Waiters: `wants`: steps at most; `workers` and `leases_ms`: of each. Each gets a step before any gets a second.
-- Limits:  a queue with a limit gives no more steps than the limit allows. Steps beyond it are announced when a step
--          ends: see functions/release_limits.sql.
-- Rows:    one per step, see functions/load_claimed_steps.sql; then one with next_due_ms, the queues that were read,
--          how far each was read, and whether it had a step; all else null.
-- Notifies: clients that watch one of their tasks.
-- Locks:   limits, in order; then steps, skip locked.
-- Commit:  synchronous_commit = off. A crash of the database may forget the newest claims: their steps are due again at
--          once, and reports under these claims are refused.
-- Write:   `in_write`: the claim follows a write in its statement. It waits for no lock and commits as the write does.
--          What the write has made due is due at now().
create or replace function {schema}.claim_steps(
    namespaces text[], names text[], left_out text[], known bigint[], bounds_us bigint[], claim bigint,
    wants integer[], workers text[], leases_ms bigint[], in_write boolean
) returns table (
    next_due_ms float8, queues bigint[], reached_us bigint[], stocked boolean[],
    waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer,
    slot integer, part integer, namespace text, definition_name text, step_name text, callable text,
    initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text,
    checkpoint text, results text, guarded boolean
)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    -- Which waiter gets the n-th step.
    waiters integer[] := array(
        select w.waiter::integer
        from unnest(wants) with ordinality as w (want, waiter), generate_series(1, w.want) as round
        order by round, w.waiter
        limit 1000);
    taken   integer := 0;
    got     integer;
    quotas  integer[];
    soonest timestamptz;
    -- Namespace queues are read; otherwise step queues.
    whole   boolean;
    namespace_ids integer[];
    -- The ranges of queue ids that may be claimed, in order.
    froms   bigint[];
    tos     bigint[];
    -- The queues of one priority that have a due step, the longest due first, and the first step of each.
    level   record;
    firsts  timestamptz[];
    -- All queues that have a due step: where the scan of each began, its first step, and its limits.
    due_ids              bigint[];
    due_bounds           timestamptz[];
    due_firsts           timestamptz[];
    due_namespace_limits integer[];
    due_name_limits      integer[];
    -- What is claimed, and for which waiter.
    claimed_tasks   uuid[] := '{}';
    claimed_steps   integer[] := '{}';
    claimed_waiters integer[] := '{}';
begin
    perform {schema}.age_plans();
    if not in_write then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    -- A new limit counts the steps in progress: before this transaction, or after it.
    lock table {schema}.step in row exclusive mode;
    namespace_ids := array(select n.id from {schema}.namespace n where n.name = any (namespaces) order by n.id);
    whole := names is null and left_out = '{}' and not exists (
        select from {schema}.step_limit m where m.namespace_id = any (namespace_ids) and m.name <> '');
    select r.froms, r.tos into froms, tos
    from {schema}.claimable_ranges(whole, namespace_ids, names, left_out) r;

    select array_agg(q.id),
           coalesce(array_agg((extract(epoch from q.reached) * 1000000)::bigint), '{}'),
           coalesce(array_agg(q.due_at is not null), '{}'),
           min(q.due_at) filter (where not q.due),
           array_agg(q.id) filter (where q.due),
           array_agg(q.bound) filter (where q.due),
           array_agg(q.due_at) filter (where q.due)
    into queues, reached_us, stocked, soonest, due_ids, due_bounds, due_firsts
    from (
        select f.id, f.bound, f.due_at, coalesce(f.due_at <= now(), false) as due,
               case when f.due_at <= now() then f.due_at else now() end as reached
        from {schema}.first_due(whole, froms, tos, known, bounds_us) f
    ) q;
    if whole then
        due_namespace_limits := array(
            select m.id
            from unnest(due_ids) with ordinality as d (id, index)
            left join {schema}.step_limit m on m.namespace_id = (d.id >> 40)::integer and m.name = ''
            order by d.index);
        due_name_limits := array_fill(null::integer, array[coalesce(cardinality(due_ids), 0)]);
    else
        select coalesce(array_agg(q.namespace_limit_id order by d.index), '{}'),
               coalesce(array_agg(q.name_limit_id order by d.index), '{}')
        into due_namespace_limits, due_name_limits
        from unnest(due_ids) with ordinality as d (id, index)
        cross join lateral (
            select q.namespace_limit_id, q.name_limit_id from {schema}.step_queue q where q.id = d.id offset 0
        ) q;
    end if;
    if array_remove(due_namespace_limits || due_name_limits, null) <> '{}' then
        if not {schema}.lock_limits(due_namespace_limits || due_name_limits, in_write) then
            -- The next poll, at once, waits for them.
            next_due_ms := 0.001;
            return next;
            return;
        end if;
    end if;

    for level in
        select array_agg(d.id order by d.first) as ids,
               array_agg(d.bound order by d.first) as bounds,
               array_agg(d.first order by d.first) as firsts,
               array_agg(d.namespace_limit order by d.first) as namespace_limits,
               array_agg(d.name_limit order by d.first) as name_limits,
               bool_or(coalesce(d.namespace_limit, d.name_limit) is not null) as limited
        from unnest(due_ids, due_bounds, due_firsts, due_namespace_limits, due_name_limits)
            as d (id, bound, first, namespace_limit, name_limit)
        group by d.id & 65535
        order by d.id & 65535 desc
    loop
        firsts := level.firsts;
        loop
            exit when taken = cardinality(waiters);
            quotas := {schema}.divide_claim(
                whole, level.ids, firsts, level.namespace_limits, level.name_limits, level.limited,
                cardinality(waiters) - taken);
            exit when quotas is null;
            with mine as materialized (
                select s.*, q.index as source, q.namespace_limit is not null or q.name_limit is not null as limited
                from unnest(level.ids, firsts, quotas, level.namespace_limits, level.name_limits)
                    with ordinality as q (id, first, quota, namespace_limit, name_limit, index)
                cross join lateral (
                    select due.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                               s.ready_at, s.since
                        from {schema}.step s
                        where whole and s.namespace_queue_id = q.id and s.due_at >= q.first and s.due_at <= now()
                          and s.due_at < 'infinity'
                        order by s.due_at limit q.quota for update skip locked
                    ) due
                    union all
                    select due.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                               s.ready_at, s.since
                        from {schema}.step s
                        where not whole and s.queue_id = q.id and s.due_at >= q.first and s.due_at <= now()
                          and s.due_at < 'infinity'
                        order by s.due_at limit q.quota for update skip locked
                    ) due
                ) s
                where q.quota > 0
            ), claimed as (
                update {schema}.step s
                set state = 'in_progress', fence = claim, published = null, attempt = s.attempt + 1, since = now(),
                    worker = workers[waiters[m.index]],
                    ready_at = case when s.state in ('waiting_for_retry', 'in_progress') then s.due_at
                        else s.ready_at end,
                    due_at = now() + least(leases_ms[waiters[m.index]], d.timeout_ms) * interval '1 ms',
                    -- The engine ends the leases of last attempts, of limited steps, and those that end with the
                    -- timeout: another claim must not take these steps over.
                    queue_id = case when s.attempt + 1 < d.max_attempts and not m.limited
                        and coalesce(d.timeout_ms > leases_ms[waiters[m.index]], true) then s.queue_id else 0 end
                from (
                    select taken + (row_number() over (order by m.due_at))::integer as index, m.* from mine m
                ) m
                cross join lateral (select t.template_id from {schema}.task t where t.id = m.task_id offset 0) t
                cross join lateral (
                    select d.max_attempts, d.timeout_ms from {schema}.definition d
                    where d.template_id = t.template_id and d.ordinal = m.slot
                    offset 0
                ) d
                -- A locked row stays at its ctid. One that moved since this statement began is left to the next poll.
                where s.ctid = m.tid
                returning m.*, s.ordinal
            ), expired as (
                -- The lease of its last claim has ended.
                insert into {schema}.attempt (
                    task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, ended_at)
                select c.task_id, c.ordinal, c.fence, c.attempt, 'lease_ended', c.worker, c.ready_at, c.since, c.due_at
                from claimed c
                where c.state = 'in_progress'
            )
            select count(*), coalesce(max(c.index), taken),
                   claimed_tasks || array_agg(c.task_id order by c.index),
                   claimed_steps || array_agg(c.ordinal order by c.index),
                   claimed_waiters || array_agg(waiters[c.index] order by c.index),
                   array(
                       select (select count(*)::integer from claimed c where c.source = i.i)
                       from generate_subscripts(level.ids, 1) as i (i)
                       order by i.i)
            into got, taken, claimed_tasks, claimed_steps, claimed_waiters, quotas
            from claimed c;
            exit when got = 0;
            if level.limited then
                update {schema}.step_limit m
                set running = m.running + counted.got
                from (
                    select l.id, sum(q.got)::integer as got
                    from unnest(quotas, level.namespace_limits, level.name_limits)
                        as q (got, namespace_limit, name_limit)
                    cross join unnest(array[q.namespace_limit, q.name_limit]) as l (id)
                    where l.id is not null
                    group by l.id
                ) counted
                where m.id = counted.id;
            end if;
            firsts := array(
                select case when q.got = 0 then q.first else f.due_at end
                from unnest(level.ids, level.bounds, firsts, quotas)
                    with ordinality as q (id, bound, first, got, index)
                left join lateral (
                    (select s.due_at from {schema}.step s
                     where q.got > 0 and whole and s.namespace_queue_id = q.id and s.due_at >= q.first
                       and s.due_at < 'infinity'
                       and s.due_at <= case q.bound when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                    union all
                    (select s.due_at from {schema}.step s
                     where q.got > 0 and not whole and s.queue_id = q.id and s.due_at >= q.first
                       and s.due_at < 'infinity'
                       and s.due_at <= case q.bound when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                ) f on true
                order by q.index);
            -- Steps that a limit holds back leave room for others.
            exit when not level.limited;
        end loop;
        -- Steps that a limit holds back are announced when a step ends.
        soonest := least(soonest, (
            select min(q.first)
            from unnest(firsts, level.namespace_limits, level.name_limits) as q (first, namespace_limit, name_limit)
            where taken = cardinality(waiters) or not level.limited or not exists (
                select from {schema}.step_limit m
                where m.id in (q.namespace_limit, q.name_limit) and m.running >= m.max_running)));
        -- Every waiter has enough.
        exit when taken = cardinality(waiters) and soonest <= now();
    end loop;

    if taken > 0 then
        perform pg_notify({watch}, t.id::text) from {schema}.task t
        where t.id = any (claimed_tasks) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query
        select null::float8, null::bigint[], null::bigint[], null::boolean[], loaded.*
        from {schema}.load_claimed_steps(claimed_tasks, claimed_steps, claimed_waiters, leases_ms) as loaded;
    end if;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$$;
