-- Leases the instances whose messages have been due longest, each with all its due messages.
-- Rows:  one per leased instance. Then one row of nulls except next_due_ms: in how long the next message is due;
--        due_us: the current time, if nothing due is left; blocked: a due message waits for the end of a lease.
-- lock_tokens: a token for each instance that it may lease.
-- in_write: the claim is part of the statement of a write batch, whose messages it sees: it must be durable.
-- bound_us: messages that were due before it are not scanned. Rows that were claimed and deleted before the live ones
--        stay in the index while any transaction is old enough to see them, and every claim would skip them again.
-- Locks: an advisory lock per instance, tried and never waited for: concurrent claims skip the instance. What was read
--        before the lock is read again after it with a later snapshot, which sees what another claim did.
-- Plans: the due messages are ordered by time alone, as the index returns them; with the id as well, all of them would
--        be read and sorted. Lookups by key are lateral subqueries with `offset 0`, which fixes the join order. The
--        messages of an instance are bounded by the pair (instance_id, visible_at), which only the primary key serves:
--        for the time alone, a plan made on an empty table uses orchestrator_queue_due and later reads everything due.
-- Index: orchestrator_queue_due forwards from the bound; primary keys of instance_locks and instances for each message
--        read; primary key of orchestrator_queue for each instance; that of history backwards for its last row.
-- Cost:  with a million instances, ten million rows of history and a million future timers: 4 of 5 000 due in 0.6 ms
--        and 244 buffers, none due in 0.05 ms and 10 buffers. `order by visible_at, id` read and sorted all 20 000
--        due: 25 ms.
create or replace function {schema}.claim_instances(
    lock_tokens uuid[], lease_ms bigint, min_version bigint, max_version bigint, bound_us bigint, in_write boolean
) returns table (
    next_due_ms           float8,
    due_us                bigint,
    instance_id           text,
    lock_token            uuid,
    attempt               integer,
    messages              text[],
    orchestration_name    text,
    orchestration_version text,
    execution_id          bigint,
    generation            bigint,
    last_event_id         bigint,
    had_executions        boolean,
    blocked               boolean
)
language plpgsql
set search_path = reveille_own
{index_plans}
as $$
#variable_conflict use_column
declare
    -- In a write, what it wrote is due later than its beginning.
    as_of          timestamptz := case when in_write then clock_timestamp() else now() end;
    bound          timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
    max_instances  integer := cardinality(lock_tokens);
    -- Several messages of one instance are often adjacent, so more messages than instances are read.
    max_messages   integer := max_instances * 8;
    candidates     text[];
    any_expired    boolean;
    leased         integer;
    next_due       timestamptz;
    next_lease_end timestamptz;
    -- When the instances were locked. An ack that committed after this claim began, and before it chose the instance,
    -- wrote messages that are due after as_of. They belong to the turn: one of them may be the start of the next
    -- execution, without which the runtime can do nothing with the others.
    locked_at      timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a server crash is a turn that runs twice, and only one is acked: no need to wait for the flush.
    if not in_write then
        perform set_config('synchronous_commit', 'off', true);
    end if;

    -- 1. Choose instances and lock them. If due messages remain, the next one is due now. Otherwise the next one is in
    --    the future, or its instance is leased until then.
    with due as materialized (
        select message.instance_id, message.visible_at, message.id, lease.locked_until is not null as expired_lease
        from {schema}.orchestrator_queue message
        left join lateral (
            select lease.locked_until from {schema}.instance_locks lease
            where lease.instance_id = message.instance_id
            offset 0
        ) as lease on true
        left join lateral (
            select instance.pinned_version from {schema}.instances instance
            where instance.instance_id = message.instance_id
            offset 0
        ) as instance on true
        where message.visible_at <= as_of
          and message.visible_at >= bound
          and coalesce(lease.locked_until <= as_of, true)
          and (min_version is null or coalesce(instance.pinned_version between min_version and max_version, true))
        order by message.visible_at
        limit max_messages
    ), ranked as materialized (
        select due.instance_id, bool_or(due.expired_lease) as expired_lease
        from due
        group by due.instance_id
        order by min(due.visible_at), min(due.id)
    ), locked as materialized (
        select ranked.instance_id, ranked.expired_lease
        from ranked
        where pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || ranked.instance_id, 1))
          -- If another transaction has locked the expired lease or one of its messages, skip it for a free instance.
          and (not ranked.expired_lease or (
              exists (
                  select from {schema}.instance_locks lease
                  where lease.instance_id = ranked.instance_id
                  for update skip locked
              )
              and cardinality(array(
                  select 1 from {schema}.orchestrator_queue message
                  where message.instance_id = ranked.instance_id
                    and (message.instance_id, message.visible_at) <= (ranked.instance_id, as_of)
                  for update skip locked
              )) = (
                  select count(*) from {schema}.orchestrator_queue message
                  where message.instance_id = ranked.instance_id
                    and (message.instance_id, message.visible_at) <= (ranked.instance_id, as_of)
              )
          ))
        limit max_instances
    ), chosen as materialized (
        select array_agg(locked.instance_id) as instances,
               bool_or(locked.expired_lease) as any_expired,
               (select count(*) from ranked) > count(*) or (select count(*) from due) >= max_messages as more_due
        from locked
    )
    select chosen.instances,
           chosen.any_expired,
           case when chosen.more_due then as_of else (
               select message.visible_at from {schema}.orchestrator_queue message
               where message.visible_at > as_of and message.visible_at < 'infinity'
               order by message.visible_at
               limit 1
           ) end,
           case when not chosen.more_due then (
               select min(lease.locked_until)
               from {schema}.orchestrator_queue message
               cross join lateral (
                   select lease.locked_until from {schema}.instance_locks lease
                   where lease.instance_id = message.instance_id and lease.locked_until > as_of
                   offset 0
               ) as lease
               where message.visible_at <= as_of and message.visible_at >= bound
           ) end
    into candidates, any_expired, next_due, next_lease_end
    from chosen;
    blocked := next_lease_end is not null;
    next_due := least(next_due, next_lease_end);

    if candidates is not null then
        locked_at := greatest(as_of, clock_timestamp());

        -- 2. Remove expired leases, and count their attempts.
        if any_expired then
            with expired as (
                delete from {schema}.instance_locks lease
                where lease.instance_id = any (candidates) and lease.locked_until <= as_of
                returning lease.instance_id, lease.message_ids
            )
            update {schema}.orchestrator_queue message set attempt_count = message.attempt_count + 1
            where message.ctid = any (array(
                select covered.tid
                from expired
                cross join lateral (
                    select covered.ctid as tid from {schema}.orchestrator_queue covered
                    where covered.instance_id = expired.instance_id
                      and (covered.instance_id, covered.visible_at) <= (expired.instance_id, as_of)
                      and covered.id = any (expired.message_ids)
                    offset 0
                ) as covered
            ));
        end if;

        -- 3. Lease the instances that exist or have a start among their messages.
        return query
        with batch as materialized (
            select candidate.instance_id, due.*
            from unnest(candidates) as candidate (instance_id)
            cross join lateral (
                select min(message.visible_at) as oldest_due,
                       max(message.attempt_count) + 1 as attempt,
                       array_agg(message.id) as message_ids,
                       array_agg(message.work_item order by message.visible_at, message.id) as messages,
                       bool_or(message.kind = 'start') as has_start
                from {schema}.orchestrator_queue message
                where message.instance_id = candidate.instance_id
                  and (message.instance_id, message.visible_at) <= (candidate.instance_id, locked_at)
            ) as due
            where due.oldest_due is not null
        ), described as materialized (
            select batch.*,
                   instance.orchestration_name,
                   instance.orchestration_version,
                   instance.generation,
                   instance.current_execution_id > 1 or instance.status <> 'Running' as had_executions,
                   coalesce(instance.current_execution_id, (
                       select max(execution.execution_id) from {schema}.executions execution
                       where execution.instance_id = batch.instance_id
                   )) as execution_id
            from batch
            left join lateral (
                select * from {schema}.instances instance
                where instance.instance_id = batch.instance_id
                offset 0
            ) as instance on true
            -- A lease that this snapshot sees counts although its ack may commit before the insert: the messages that
            -- this snapshot sees are then gone as well.
            left join lateral (
                select lease.instance_id from {schema}.instance_locks lease
                where lease.instance_id = batch.instance_id
                offset 0
            ) as lease on true
            where lease.instance_id is null
        ), leased as (
            insert into {schema}.instance_locks (instance_id, lock_token, locked_until, message_ids)
            select described.instance_id,
                   lock_tokens[row_number() over ()],
                   as_of + lease_ms * interval '1 ms',
                   described.message_ids
            from described
            where described.has_start or described.execution_id is not null
            on conflict (instance_id) do nothing
            returning instance_locks.instance_id, instance_locks.lock_token
        )
        select null::float8,
               (extract(epoch from greatest(described.oldest_due, 'epoch')) * 1000000)::bigint,
               described.instance_id,
               leased.lock_token,
               described.attempt,
               described.messages,
               described.orchestration_name,
               described.orchestration_version,
               described.execution_id,
               described.generation,
               (
                   select history.last_event_id from {schema}.history
                   where history.instance_id = described.instance_id
                     and history.execution_id = described.execution_id
                   order by history.event_id desc
                   limit 1
               ),
               described.had_executions,
               null::boolean
        from leased
        join described on described.instance_id = leased.instance_id
        order by described.oldest_due;
        get diagnostics leased = row_count;

        -- 4. Messages to an instance that has not been started wait for the start, with `visible_at = infinity`. If all
        --    due ones are queue messages and no start is on its way, they are dropped.
        if leased < cardinality(candidates) then
            with not_started as materialized (
                select message.instance_id,
                       bool_and(message.kind = 'queue_message'
                                or message.kind = 'message' and message.visible_at > as_of) as droppable,
                       array_agg(message.tid) filter (where message.visible_at <= as_of) as tids
                from unnest(candidates) as candidate (instance_id)
                cross join lateral (
                    select message.instance_id, message.kind, message.visible_at, message.ctid as tid
                    from {schema}.orchestrator_queue message
                    where message.instance_id = candidate.instance_id
                      and (message.instance_id, message.visible_at) < (candidate.instance_id, 'infinity')
                    offset 0
                ) as message
                where not exists (
                    select from {schema}.instances instance where instance.instance_id = candidate.instance_id
                )
                  and not exists (
                    select from {schema}.executions execution where execution.instance_id = candidate.instance_id
                )
                  -- Another claim may have leased them with a start that came after this claim began.
                  and not exists (
                    select from {schema}.instance_locks lease where lease.instance_id = candidate.instance_id
                )
                group by message.instance_id
                having not bool_or(message.kind = 'start' and message.visible_at <= as_of)
            ), dropped as (
                delete from {schema}.orchestrator_queue message
                where message.ctid = any (array(
                    select due.tid from not_started, unnest(not_started.tids) as due (tid) where not_started.droppable
                ))
            )
            update {schema}.orchestrator_queue message set visible_at = 'infinity'
            where message.ctid = any (array(
                select due.tid from not_started, unnest(not_started.tids) as due (tid) where not not_started.droppable
            ));
            next_due := as_of;
        end if;
    end if;

    next_due_ms := extract(epoch from next_due - as_of) * 1000;
    due_us := case
        when next_due is null or next_due > as_of then (extract(epoch from as_of) * 1000000)::bigint
    end;
    return next;
end
$$;
