-- Claims the steps whose messages have been brought by another queue, with all that their handlers need.
-- numbers: of the messages. A step that was sent again since, or claimed, or that has ended, is not this message's any more.
-- Fence:   a number that no other claim has, see functions/claim_steps.sql. Seats: `workers` and `leases_ms` of each delivery.
-- Limits:  a lane that has one gives no more than that allows.
-- Leases:  are the engine's to watch: in these namespaces nobody else looks at the lanes but who sends.
-- Rows:    one of `verdicts` alone, a letter per delivery: c: claimed, s: it is not this message's any more, f: there is no room, b: somebody has the step for a moment. Then one per claimed
--          step, see functions/hand_out.sql, where `seat` is the place of its delivery from 0.
-- Rings:   who watches one of their tasks.
-- Locks:   limits, in order; then steps, skip locked.
-- Index:   primary keys.
-- Commit:  is not waited for to be on disk, as in functions/claim_steps.sql.
create or replace function {schema}.claim_delivered(tasks uuid[], ordinals integer[], numbers bigint[], claim bigint, workers text[], leases_ms bigint[])
returns table (
    verdicts text,
    seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer,
    namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text,
    results text, guarded boolean
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    limited integer[];
    mine    record;
    verdict text;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- What is claimed.
    claimed       uuid[] := '{}';
    claimed_steps integer[] := '{}';
    seats         integer[] := '{}';
begin
    -- Whoever makes a limit counts what is under way: before this, or after it.
    lock table {schema}.step in row exclusive mode;
    verdicts := '';
    limited := array(
        select distinct x.id
        from unnest(tasks, ordinals) as n (task_id, ordinal)
        cross join lateral (select s.lane_id from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal offset 0) s
        join {schema}.step_lane l on l.id = s.lane_id
        cross join unnest(array[l.space_limit_id, l.name_limit_id]) as x (id)
        where x.id is not null);
    if limited <> '{}' then
        perform from {schema}.step_limit m where m.id = any (limited) order by m.id for update;
    end if;

    for place in 1 .. cardinality(tasks) loop
        select s.published, s.state, s.due_at, s.slot, l.space_limit_id, l.name_limit_id into mine
        from {schema}.step s join {schema}.step_lane l on l.id = s.lane_id
        where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update of s skip locked;
        if not found then
            verdict := case when exists (select from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] and s.published = numbers[place]) then 'b' else 's' end;
        elsif mine.published is distinct from numbers[place] or mine.state <> 'r' or mine.due_at = 'infinity' then
            verdict := 's';
        elsif not array_remove(array[mine.space_limit_id, mine.name_limit_id], null) <@ limited then
            -- The limit is newer than the look at it.
            verdict := 'b';
        elsif exists (select from {schema}.step_limit m where m.id in (mine.space_limit_id, mine.name_limit_id) and m.running >= m.most) then
            verdict := 'f';
        else
            verdict := 'c';
            update {schema}.step s
            set state = 'i', fence = claim, published = null, attempt = s.attempt + 1, since = now(), worker = workers[place], lane_id = 0,
                due_at = now() + least(leases_ms[place], d.timeout_ms) * interval '1 ms'
            from {schema}.definition d
            where s.task_id = tasks[place] and s.ordinal = ordinals[place]
              and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[place]) and d.ordinal = mine.slot;
            update {schema}.step_limit m set running = m.running + 1 where m.id in (mine.space_limit_id, mine.name_limit_id);
            claimed := claimed || tasks[place];
            claimed_steps := claimed_steps || ordinals[place];
            seats := seats || place;
        end if;
        verdicts := verdicts || verdict;
    end loop;
    return next;

    if claimed <> '{}' then
        perform pg_notify({watch}, t.id::text) from {schema}.task t where t.id = any (claimed) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query select null::text, h.* from {schema}.hand_out(claimed, claimed_steps, seats, leases_ms) h;
    end if;
end
$$;
