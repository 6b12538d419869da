-- Checks tasks whose lifecycle limits may have passed. A late task is treated as its template says; for another one the
-- time of the next check is set.
-- A task can be late in total, or in its current state, which is derived from its steps. A state that it may enter
-- later is late no sooner than that state's limit from now: that bounds the next check.
-- Locks: the tasks, in order; then their steps.
create or replace function {schema}.age_tasks(tasks uuid[]) returns void
language plpgsql volatile set search_path = reveille_own
as $$
declare
    one   record;
    late  text;
    ended uuid[] := '{}';
begin
    perform from {schema}.task t where t.id = any (tasks) order by t.id for update;
    for one in
        select t.id, p.staleness, greatest(t.watched_until, t.awaited_until) > now() as watched,
               coalesce(t.resumed_at, t.created_at) + p.max_duration_ms * interval '1 ms' as late_at,
               case when s.running is not null
                       then greatest(t.updated_at, s.running) + p.max_in_process_ms * interval '1 ms'
                    when s.ready then null
                    when s.pausing then t.updated_at + p.max_retry_ms * interval '1 ms'
                    else t.updated_at + p.max_waiting_ms * interval '1 ms' end as late_in_state_at,
               case when s.running is not null then 'steps_in_process'
                    when s.pausing then 'waiting_for_retry'
                    else 'waiting_for_dependencies' end as state,
               now() + least(p.max_waiting_ms, p.max_retry_ms, p.max_in_process_ms) * interval '1 ms' as next_check_at
        from {schema}.task t
        join {schema}.template p on p.id = t.template_id
        cross join lateral (
            select min(s.since) filter (where s.state = 'in_progress') as running,
                   coalesce(bool_or(s.state = 'ready'), false) as ready,
                   coalesce(bool_or(s.state = 'waiting_for_retry'), false) as pausing
            from {schema}.step s
            where s.task_id = t.id and s.state in ('in_progress', 'ready', 'waiting_for_retry')
        ) s
        where t.id = any (tasks) and t.state = 'open' and t.due_at <= now()
        order by t.id
    loop
        late := case
            when one.late_at <= now() then 'max_duration'
            when one.late_in_state_at <= now() then 'too_long_' || one.state end;
        if late is null then
            update {schema}.task t
            set due_at = coalesce(least(one.late_at, one.late_in_state_at, one.next_check_at), 'infinity')
            where t.id = one.id;
            continue;
        end if;
        if one.staleness in ('dlq', 'alert') then
            perform {schema}.investigate(array[one.id], array[null::integer], array[late]);
        end if;
        if one.staleness = 'alert' then
            update {schema}.task t set due_at = 'infinity' where t.id = one.id;
        else
            ended := ended || one.id;
            if one.watched then
                perform {schema}.notify(array[{watch}], array[one.id::text]);
            end if;
        end if;
    end loop;
    if ended <> '{}' then
        perform {schema}.end_tasks(ended, 'error');
    end if;
end
$$;
