-- The public state of a task; of an open one as `StepCounts::open_state` derives it from the steps.
create or replace function {schema}.public_state(of_task uuid) returns text
language sql stable set search_path = reveille_own
as $$
    select case when t.state <> 'open' then t.state::text else (
        select case when bool_or(s.state = 'in_progress') then 'steps_in_process'
                    when t.failed > 0 then 'blocked_by_failures'
                    when bool_or(s.state = 'ready') then 'enqueuing_steps'
                    when bool_or(s.state = 'waiting_for_retry') then 'waiting_for_retry'
                    else 'waiting_for_dependencies' end
        from {schema}.step s
        where s.task_id = t.id) end
    from {schema}.task t
    where t.id = of_task
$$;
