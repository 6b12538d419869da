-- Where a task is, as people see it: `StepCounts::open_state` of standing.rs for one that is not over.
create or replace function {schema}.public_state(of_task uuid) returns text
language sql stable set search_path = reveille_own
as $$
    select case t.state when 'c' then 'complete' when 'e' then 'error' when 'x' then 'cancelled' when 'm' then 'resolved_manually' else (
        select case when bool_or(s.state = 'i') then 'steps_in_process'
                    when t.failed > 0 then 'blocked_by_failures'
                    when bool_or(s.state = 'r') then 'enqueuing_steps'
                    when bool_or(s.state = 'w') then 'waiting_for_retry'
                    else 'waiting_for_dependencies' end
        from {schema}.step s where s.task_id = t.id) end
    from {schema}.task t where t.id = of_task
$$;
