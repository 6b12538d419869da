-- Claims the steps whose messages were delivered by another queue, with all that their handlers need.
-- numbers: of the messages. A step that was sent again, claimed or ended since is not claimed by its older message.
-- Fence:   unique to this claim: see functions/claim_steps.sql. `workers` and `leases_ms` are by delivery.
-- Limits:  a queue with a limit gives no more steps than the limit allows.
-- Leases:  are put into the engine's queue: in these namespaces only the publisher reads the others.
-- Rows:    first one with `verdicts` alone, a word per delivery: claimed; stale: the message is not the step's last, or
--          the step has ended; no_room: its limit is reached; locked: another transaction holds the step. Then one per
--          claimed step, see functions/load_claimed_steps.sql, where `waiter` is the position of its delivery from 0.
-- Notifies: clients that watch one of their tasks.
-- Locks:   limits, in order; then steps, skip locked.
-- Index:   primary keys.
-- Commit:  synchronous_commit = off, as in functions/claim_steps.sql.
create or replace function {schema}.claim_delivered(
    tasks uuid[], ordinals integer[], numbers bigint[], claim bigint, workers text[], leases_ms bigint[]
) returns table (
    verdicts text[],
    waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer,
    slot integer, part integer, namespace text, definition_name text, step_name text, callable text,
    initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text,
    checkpoint text, results text, guarded boolean
)
language plpgsql volatile set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
declare
    limits        integer[];
    step          record;
    verdict       text;
    ignored       text := set_config('synchronous_commit', 'off', true);
    claimed_tasks uuid[] := '{}';
    claimed_steps integer[] := '{}';
    waiters       integer[] := '{}';
begin
    -- A new limit counts the steps in progress: before this transaction, or after it.
    lock table {schema}.step in row exclusive mode;
    verdicts := '{}';
    limits := array(
        select distinct l.id
        from unnest(tasks, ordinals) as delivery (task_id, ordinal)
        cross join lateral (
            select s.queue_id from {schema}.step s
            where s.task_id = delivery.task_id and s.ordinal = delivery.ordinal
            offset 0
        ) s
        join {schema}.step_queue q on q.id = s.queue_id
        cross join unnest(array[q.namespace_limit_id, q.name_limit_id]) as l (id)
        where l.id is not null);
    if limits <> '{}' then
        perform from {schema}.step_limit m where m.id = any (limits) order by m.id for update;
    end if;

    for index in 1 .. cardinality(tasks) loop
        select s.published, s.state, s.due_at, s.slot, q.namespace_limit_id, q.name_limit_id into step
        from {schema}.step s
        join {schema}.step_queue q on q.id = s.queue_id
        where s.task_id = tasks[index] and s.ordinal = ordinals[index]
        for update of s skip locked;
        if not found then
            verdict := case when exists (
                select from {schema}.step s
                where s.task_id = tasks[index] and s.ordinal = ordinals[index] and s.published = numbers[index]
            ) then 'locked' else 'stale' end;
        elsif step.published is distinct from numbers[index] or step.state <> 'ready' or step.due_at = 'infinity' then
            verdict := 'stale';
        elsif not array_remove(array[step.namespace_limit_id, step.name_limit_id], null) <@ limits then
            -- The limit is newer than the query above.
            verdict := 'locked';
        elsif exists (
            select from {schema}.step_limit m
            where m.id in (step.namespace_limit_id, step.name_limit_id) and m.running >= m.max_running
        ) then
            verdict := 'no_room';
        else
            verdict := 'claimed';
            update {schema}.step s
            set state = 'in_progress', fence = claim, published = null, attempt = s.attempt + 1, since = now(),
                worker = workers[index], queue_id = 0,
                due_at = now() + least(leases_ms[index], d.timeout_ms) * interval '1 ms'
            from {schema}.definition d
            where s.task_id = tasks[index] and s.ordinal = ordinals[index]
              and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[index])
              and d.ordinal = step.slot;
            update {schema}.step_limit m set running = m.running + 1
            where m.id in (step.namespace_limit_id, step.name_limit_id);
            claimed_tasks := claimed_tasks || tasks[index];
            claimed_steps := claimed_steps || ordinals[index];
            waiters := waiters || index;
        end if;
        verdicts := verdicts || verdict;
    end loop;
    return next;

    if claimed_tasks <> '{}' then
        perform pg_notify({watch}, t.id::text) from {schema}.task t
        where t.id = any (claimed_tasks) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query
        select null::text[], loaded.*
        from {schema}.load_claimed_steps(claimed_tasks, claimed_steps, waiters, leases_ms) as loaded;
    end if;
end
$$;
