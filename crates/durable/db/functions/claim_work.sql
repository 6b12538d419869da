-- Leases the activities that have been due longest to the waiters, which are given in order of waiting time.
-- Waiters: `lock_tokens`, `owners` and `session_ms` have one element per waiter. An activity without a session goes to
--        any waiter. One with a session goes to a waiter of the session's owner; if the session has no owner, to the
--        first waiter that accepts sessions (owner not null), which then owns it for its session_ms.
-- tag_queues: the tag queues to claim from; null: all.
-- Rows:  one per leased activity, `waiter` from zero. Then one row of nulls except next_due_ms: in how long the next
--        activity is due; due_us: the current time, if nothing due is left.
-- Locks: the claimed rows, skip locked. An advisory lock per session and then its row, both tried and never waited for:
--        acks lock sessions while they hold other locks, so waiting here could deadlock.
-- bound_us, in_write, plans: as in claim_instances.
-- Index: worker_queue_due forwards from the bound in each tag queue; primary key to lock; rows are updated by ctid.
-- Cost:  4 of 5 000 due in 0.19 ms and 36 buffers, one in 0.16 ms and 12, none due in 0.08 ms. With a bitmap scan,
--        which the planner prefers for an empty table, 20 000 due cost 20 ms; joined by key instead of ctid, 140 ms.
create or replace function {schema}.claim_work(
    tag_queues text[], lease_ms bigint, lock_tokens uuid[], owners text[], session_ms bigint[],
    bound_us bigint, in_write boolean
) returns table (
    next_due_ms float8,
    due_us      bigint,
    waiter      integer,
    instance_id text,
    id          bigint,
    lock_token  uuid,
    attempt     integer,
    work_item   text
)
language plpgsql
set search_path = reveille_own
{index_plans}
as $$
#variable_conflict use_column
declare
    -- In a write, what it wrote is due later than its beginning.
    as_of           timestamptz := case when in_write then clock_timestamp() else now() end;
    bound           timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
    session_owners  text[] := array_remove(owners, null);
    max_activities  integer := cardinality(owners);
    -- The locked activities, oldest first; waiters from 1, null for an activity that no waiter may take.
    ids             bigint[];
    tids            tid[];
    sessions        text[];
    waiters         integer[];
    candidate       record;
    chosen_waiter   integer;
    is_free         boolean[];
    session_owner   text;
    next_due        timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a server crash is an activity that runs twice, which is allowed: no need to wait for the flush.
    if not in_write then
        perform set_config('synchronous_commit', 'off', true);
    end if;

    -- 1. Where to scan. Each poll may take the activities of other sessions, so a bound that one poll has found does
    --    not hold for the next while activities with sessions are queued.
    if bound_us is not null
       and exists (select from {schema}.worker_queue activity where activity.session_id is not null) then
        bound := '-infinity';
    end if;
    if tag_queues is null then
        -- Skips from one tag queue to the next in the index.
        with recursive existing as (
            (select activity.tag_queue from {schema}.worker_queue activity order by activity.tag_queue limit 1)
            union all
            select (
                select activity.tag_queue from {schema}.worker_queue activity
                where activity.tag_queue > existing.tag_queue
                order by activity.tag_queue
                limit 1
            )
            from existing
            where existing.tag_queue is not null
        )
        select coalesce(array_agg(existing.tag_queue), '{}') into tag_queues
        from existing
        where existing.tag_queue is not null;
    end if;

    -- 2. Lock activities, oldest first. More are read than claimed, because other claims may have locked the first
    --    ones. If due activities remain, the next one is due now. Otherwise it is in the future, or leased until then,
    --    itself or its session: the later of both.
    with due as materialized (
        select oldest.*
        from unnest(tag_queues) as queue (tag_queue)
        cross join lateral (
            select activity.instance_id, activity.id, activity.visible_at, activity.session_id
            from {schema}.worker_queue activity
            where activity.tag_queue = queue.tag_queue
              and activity.visible_at <= as_of
              and activity.visible_at >= bound
              and (activity.locked_until is null or activity.locked_until <= as_of)
              and (activity.session_id is null
                   or session_owners <> '{}' and coalesce((
                       select session.worker_id = any (session_owners) from {schema}.sessions session
                       where session.session_id = activity.session_id and session.locked_until > as_of
                   ), true))
            order by activity.visible_at
            limit max_activities * 2 + 16
        ) as oldest
        order by oldest.visible_at, oldest.id
        limit max_activities * 2 + 16
    ), locked as materialized (
        -- Locked one by one up to the limit. Sorting or numbering them here would lock all of them first.
        select due.id, due.session_id, due.visible_at, activity.tid
        from due
        cross join lateral (
            select activity.ctid as tid from {schema}.worker_queue activity
            where activity.instance_id = due.instance_id
              and activity.id = due.id
              and (activity.locked_until is null or activity.locked_until <= as_of)
            for update skip locked
        ) as activity
        limit max_activities
    ), collected as materialized (
        select array_agg(numbered.id order by numbered.position) as ids,
               array_agg(numbered.tid order by numbered.position) as tids,
               array_agg(numbered.session_id order by numbered.position) as sessions,
               array_agg(numbered.position::int order by numbered.position) as positions,
               count(numbered.session_id) > 0 as has_sessions,
               count(*) as locked
        from (
            select locked.*, row_number() over (order by locked.visible_at, locked.id) as position from locked
        ) as numbered
    )
    select collected.ids,
           collected.tids,
           collected.sessions,
           case when not collected.has_sessions then collected.positions end,
           case when (select count(*) from due) > collected.locked then as_of else (
               select min(least(future.visible_at, leased.until))
               from unnest(tag_queues) as queue (tag_queue)
               left join lateral (
                   select activity.visible_at from {schema}.worker_queue activity
                   where activity.tag_queue = queue.tag_queue and activity.visible_at > as_of
                   order by activity.visible_at
                   limit 1
               ) as future on true
               left join lateral (
                   select min(greatest(activity.locked_until, (
                              select session.locked_until from {schema}.sessions session
                              where session.session_id = activity.session_id
                                and session.worker_id <> all (session_owners)
                          ))) as until
                   from {schema}.worker_queue activity
                   where activity.tag_queue = queue.tag_queue
                     and activity.visible_at <= as_of
                     and activity.visible_at >= bound
                     and (activity.session_id is null or session_owners <> '{}')
                     and (activity.locked_until > as_of or exists (
                         select from {schema}.sessions session
                         where session.session_id = activity.session_id
                           and session.locked_until > as_of
                           and session.worker_id <> all (session_owners)
                     ))
               ) as leased on true
           ) end
    into ids, tids, sessions, waiters, next_due
    from collected;

    -- 3. Assign activities to waiters. Without sessions each goes to the next waiter. With sessions they are assigned
    --    one by one.
    if ids is not null and waiters is null then
        is_free := array_fill(true, array[max_activities]);
        waiters := array_fill(null::integer, array[cardinality(ids)]);
        for candidate in
            select given.position::int, given.session_id
            from unnest(sessions) with ordinality as given (session_id, position)
        loop
            if candidate.session_id is null then
                chosen_waiter := array_position(is_free, true);
            else
                -- Lock, then read the owner: the transaction that held the lock before may have claimed the session.
                next_due := as_of;
                continue when not pg_try_advisory_xact_lock(
                    hashtextextended({schema_text} || '/' || candidate.session_id, 2));
                continue when not exists (
                        select from {schema}.sessions session
                        where session.session_id = candidate.session_id
                        for update skip locked
                    )
                    and exists (select from {schema}.sessions session where session.session_id = candidate.session_id);
                session_owner := (
                    select session.worker_id from {schema}.sessions session
                    where session.session_id = candidate.session_id and session.locked_until > as_of
                );
                chosen_waiter := (
                    select min(given.position)
                    from unnest(owners, is_free) with ordinality as given (owner, is_free, position)
                    where given.is_free
                      and given.owner is not null
                      and (session_owner is null or given.owner = session_owner)
                );
                continue when chosen_waiter is null;
                insert into {schema}.sessions (session_id, worker_id, locked_until, last_activity_at)
                values (
                    candidate.session_id,
                    owners[chosen_waiter],
                    as_of + session_ms[chosen_waiter] * interval '1 ms',
                    as_of
                )
                on conflict (session_id) do update
                set worker_id = excluded.worker_id, locked_until = excluded.locked_until, last_activity_at = as_of;
            end if;
            exit when chosen_waiter is null;
            is_free[chosen_waiter] := false;
            waiters[candidate.position] := chosen_waiter;
        end loop;
    end if;

    -- 4. Lease them.
    if ids is not null then
        return query
        update {schema}.worker_queue activity
        set lock_token = lock_tokens[array_position(ids, activity.id)],
            locked_until = as_of + lease_ms * interval '1 ms',
            attempt_count = activity.attempt_count + 1
        where activity.ctid = any (tids) and waiters[array_position(ids, activity.id)] is not null
        returning null::float8,
                  (extract(epoch from greatest(activity.visible_at, 'epoch')) * 1000000)::bigint,
                  waiters[array_position(ids, activity.id)] - 1,
                  activity.instance_id,
                  activity.id,
                  activity.lock_token,
                  activity.attempt_count,
                  activity.work_item;
    end if;

    next_due_ms := extract(epoch from next_due - as_of) * 1000;
    due_us := case
        when next_due is null or next_due > as_of then (extract(epoch from as_of) * 1000000)::bigint
    end;
    return next;
end
$$;
