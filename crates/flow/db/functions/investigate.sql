-- Opens investigations of tasks, with a snapshot. A task with an open investigation keeps it.
-- ordinals: the step that it is about; null: the task.
-- Cost:     the steps of these tasks, which are counted.
create or replace function {schema}.investigate(tasks uuid[], ordinals integer[], reasons text[]) returns void
language sql volatile set search_path = reveille_own
as $$
    insert into {schema}.investigation (task_id, ordinal, reason, snapshot)
    select found.task_id, found.ordinal, found.reason, json_build_object(
        'state', t.state,
        'unfinished_steps', t.unfinished,
        'created_at', t.created_at,
        'updated_at', t.updated_at,
        'steps_by_state', (
            select json_object_agg(counted.state, counted.steps)
            from (
                select s.state, count(*) as steps
                from {schema}.step s
                where s.task_id = t.id and s.state not in ('not_created', 'skipped')
                group by s.state
            ) counted),
        'step', (
            select d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end
            from {schema}.step s
            join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
            where s.task_id = t.id and s.ordinal = found.ordinal),
        'attempts', (select s.attempt from {schema}.step s where s.task_id = t.id and s.ordinal = found.ordinal),
        'error', (
            select a.error::json
            from {schema}.attempt a
            where a.task_id = t.id and a.ordinal = found.ordinal and a.error is not null
            order by a.ended_at desc
            limit 1)
    )::text
    from (
        select distinct on (f.task_id) f.*
        from unnest(tasks, ordinals, reasons) with ordinality as f (task_id, ordinal, reason, index)
        order by f.task_id, f.index
    ) found
    join {schema}.task t on t.id = found.task_id
    on conflict (task_id) where resolved_at is null do nothing
$$;
