-- Takes the steps of a namespace that are due, those of a higher priority first, to be sent through another queue; and
-- says when the next is due.
-- number: that of the messages, one that no other call has. Who brings a message with it may claim its step: see
--         functions/claim_delivered.sql.
-- Lease:  `lease_ms`, for as long as it takes to send them: what was taken by a process that died is due again after
--         that. What was sent gets longer: see sql/sent_steps.sql. Nothing is charged for being sent.
-- Rows:   one per step; then one of nulls but for next_due_ms. None if the namespace is handed out through something
--         else by now.
-- Locks:  the namespace, shared, so that whoever changes its provider sees what was taken; then steps, skip locked.
-- Index:  step_due forwards, of the queues that have steps; then the primary key.
-- Commit: is not waited for to be on disk. A crash of the database may forget it, and the steps are due again at once:
--         what was sent for them is not heard then.
create or replace function {schema}.publish_steps(of_namespace text, of_provider text, want integer, number bigint,
    lease_ms bigint)
returns table (next_due_ms float8, task_id uuid, ordinal integer, name text, priority smallint, attempt integer,
    again_ms float8)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    space   integer;
    queue   record;
    mine    record;
    taken   integer := 0;
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    select n.id into space from {schema}.namespace n where n.name = of_namespace
        and n.provider = of_provider::"char" for share;
    if space is null then
        return next;
        return;
    end if;
    for queue in
        select l.queue_id, l.due_at from {schema}.live_queues(array[space::bigint << 40],
            array[(space::bigint << 40) + 65535]) l
        order by l.queue_id desc
    loop
        soonest := least(soonest, case when queue.due_at > now() then queue.due_at end);
        continue when queue.due_at > now();
        if taken < want then
            for mine in
                with due as materialized (
                    select s.task_id, s.ordinal, s.state, s.due_at, s.fence, s.attempt, s.worker, s.ready_at, s.since
                    from {schema}.step s
                    where s.queue_id = queue.queue_id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at
                    limit want - taken for update skip locked
                ), lost as (
                    -- Whoever had it is not heard of any more.
                    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at,
                        claimed_at, ended_at)
                    select d.task_id, d.ordinal, d.fence, d.attempt, 'l', d.worker, d.ready_at, d.since, d.due_at
                        from due d where d.state = 'i'
                )
                update {schema}.step s
                -- What is tried again is ready from when its pause ended, or its lease.
                set published = number, state = 'r', since = case s.state when 'r' then s.since else now() end,
                    ready_at = case s.state when 'r' then s.ready_at else s.due_at end,
                    due_at = now() + lease_ms * interval '1 ms'
                from due d
                where s.task_id = d.task_id and s.ordinal = d.ordinal
                returning s.task_id, s.ordinal, s.attempt, s.lane_id, extract(epoch
                    from s.due_at - now()) * 1000 as again_ms
            loop
                taken := taken + 1;
                task_id := mine.task_id;
                ordinal := mine.ordinal;
                select l.name, l.priority into name, priority from {schema}.step_lane l where l.id = mine.lane_id;
                attempt := mine.attempt;
                again_ms := mine.again_ms;
                return next;
            end loop;
        end if;
        soonest := least(soonest, (
            select s.due_at from {schema}.step s where s.queue_id = queue.queue_id and s.due_at < 'infinity'
                order by s.due_at limit 1));
    end loop;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    task_id := null;
    return next;
end
$$;
