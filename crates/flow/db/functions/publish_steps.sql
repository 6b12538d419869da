-- Leases the due steps of a namespace to the publisher, higher priorities first, to send them to a queue; and returns
-- when the next is due.
-- number: that of the messages, unique to this call. A delivery with it may claim its step: see
--         functions/claim_delivered.sql.
-- Lease:  `lease_ms`, for as long as sending takes: if the process dies, the steps are due again after that. A step
--         that was sent gets longer: see statements/sent_steps.sql. Sending is not charged as an attempt.
-- Rows:   one per step; then one with next_due_ms alone. None if the namespace has another provider by now.
-- Locks:  the namespace, shared, so that a change of the provider sees the leases; then steps, skip locked.
-- Index:  step_due_in_namespace forwards, of the queues that have steps; then the primary key.
-- Commit: synchronous_commit = off. A crash of the database may forget it: the steps are due again at once, and the
--         messages that were sent for them are stale.
create or replace function {schema}.publish_steps(
    of_namespace text, of_provider text, want integer, number bigint, lease_ms bigint
) returns table (
    next_due_ms float8, task_id uuid, ordinal integer, name text, priority smallint, attempt integer, again_ms float8
)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    of_namespace_id integer;
    queue   record;
    sent    record;
    taken   integer := 0;
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    select n.id into of_namespace_id from {schema}.namespace n
    where n.name = of_namespace and n.provider = of_provider::{schema}.queue_provider
    for share;
    if of_namespace_id is null then
        return next;
        return;
    end if;
    for queue in
        select l.queue_id, l.due_at
        from {schema}.live_namespace_queues(
            array[of_namespace_id::bigint << 40], array[(of_namespace_id::bigint << 40) + 65535]) l
        order by l.queue_id desc
    loop
        soonest := least(soonest, case when queue.due_at > now() then queue.due_at end);
        continue when queue.due_at > now();
        if taken < want then
            for sent in
                with due as materialized (
                    select s.task_id, s.ordinal, s.state, s.due_at, s.fence, s.attempt, s.worker, s.ready_at, s.since
                    from {schema}.step s
                    where s.namespace_queue_id = queue.queue_id and s.due_at <= now() and s.due_at < 'infinity'
                    order by s.due_at
                    limit want - taken for update skip locked
                ), expired as (
                    -- The lease of its last claim has ended.
                    insert into {schema}.attempt (
                        task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, ended_at)
                    select d.task_id, d.ordinal, d.fence, d.attempt, 'lease_ended', d.worker, d.ready_at, d.since,
                           d.due_at
                    from due d
                    where d.state = 'in_progress'
                )
                update {schema}.step s
                -- A step that is tried again is ready since its pause ended, or its lease.
                set published = number, state = 'ready',
                    since = case s.state when 'ready' then s.since else now() end,
                    ready_at = case s.state when 'ready' then s.ready_at else s.due_at end,
                    due_at = now() + lease_ms * interval '1 ms'
                from due d
                where s.task_id = d.task_id and s.ordinal = d.ordinal
                returning s.task_id, s.ordinal, s.attempt, s.queue_id,
                          extract(epoch from s.due_at - now()) * 1000 as again_ms
            loop
                taken := taken + 1;
                task_id := sent.task_id;
                ordinal := sent.ordinal;
                select q.name, q.priority into name, priority from {schema}.step_queue q where q.id = sent.queue_id;
                attempt := sent.attempt;
                again_ms := sent.again_ms;
                return next;
            end loop;
        end if;
        soonest := least(soonest, (
            select s.due_at from {schema}.step s
            where s.namespace_queue_id = queue.queue_id and s.due_at < 'infinity'
            order by s.due_at limit 1));
    end loop;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    task_id := null;
    return next;
end
$$;
