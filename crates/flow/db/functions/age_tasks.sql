-- Looks at tasks that may have taken too long. Those that have are dealt with as their template says; of the others it is said when they may have.
-- A task can be late altogether, or in the state it is in. What state that is, and since when, is read from its steps; a state that it may get into later is late no sooner than its limit from
-- now, so that is when it is looked at again.
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
        select t.id, coalesce(t.resumed_at, t.created_at) + p.max_duration_ms * interval '1 ms' as all_over, p.staleness, greatest(t.watched_until, t.awaited_until) > now() as watched,
               case when s.running is not null then greatest(t.updated_at, s.running) + p.max_in_process_ms * interval '1 ms'
                    when s.ready then null
                    when s.pausing then t.updated_at + p.max_retry_ms * interval '1 ms'
                    else t.updated_at + p.max_waiting_ms * interval '1 ms' end as state_over,
               case when s.running is not null then 'steps_in_process' when s.pausing then 'waiting_for_retry' else 'waiting_for_dependencies' end as standing,
               now() + least(p.max_waiting_ms, p.max_retry_ms, p.max_in_process_ms) * interval '1 ms' as again
        from {schema}.task t
        join {schema}.template p on p.id = t.template_id
        cross join lateral (
            select min(s.since) filter (where s.state = 'i') as running, coalesce(bool_or(s.state = 'r'), false) as ready, coalesce(bool_or(s.state = 'w'), false) as pausing
            from {schema}.step s where s.task_id = t.id and s.state in ('i', 'r', 'w')
        ) s
        where t.id = any (tasks) and t.state = 'o' and t.due_at <= now()
        order by t.id
    loop
        late := case when one.all_over <= now() then 'max_duration' when one.state_over <= now() then 'too_long_' || one.standing end;
        if late is null then
            update {schema}.task t set due_at = coalesce(least(one.all_over, one.state_over, one.again), 'infinity') where t.id = one.id;
            continue;
        end if;
        if one.staleness in ('d', 'a') then
            perform {schema}.investigate(array[one.id], array[null::integer], array[late]);
        end if;
        if one.staleness = 'a' then
            update {schema}.task t set due_at = 'infinity' where t.id = one.id;
        else
            ended := ended || one.id;
            if one.watched then
                perform {schema}.notify(array[{watch}], array[one.id::text]);
            end if;
        end if;
    end loop;
    if ended <> '{}' then
        perform {schema}.end_tasks(ended, 'e');
    end if;
end
$$;
