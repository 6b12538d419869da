-- Puts tasks on the list of what has to be looked into, with how they stand. A task that is on it stays as it is there.
-- ordinals: the step that it is about; null: none.
-- Cost:     the steps of these tasks, which are counted.
create or replace function {schema}.investigate(tasks uuid[], ordinals integer[], reasons text[]) returns void
language sql volatile set search_path = reveille_own
as $$
    insert into {schema}.investigation (task_id, ordinal, reason, snapshot)
    select n.task_id, n.ordinal, n.reason,
           json_build_object('state', t.state, 'unfinished_steps', t.unfinished, 'created_at', t.created_at, 'updated_at', t.updated_at,
                             'steps_by_state', (select json_object_agg(c.state, c.steps) from (
                                 select s.state, count(*) as steps from {schema}.step s where s.task_id = t.id and s.state not in ('a', 's') group by s.state) c),
                             'step', (select d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end
                                      from {schema}.step s join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
                                      where s.task_id = t.id and s.ordinal = n.ordinal),
                             'attempts', (select s.attempt from {schema}.step s where s.task_id = t.id and s.ordinal = n.ordinal),
                             'error', (select a.error::json from {schema}.attempt a where a.task_id = t.id and a.ordinal = n.ordinal and a.error is not null
                                       order by a.ended_at desc limit 1))::text
    from (select distinct on (m.task_id) m.* from unnest(tasks, ordinals, reasons) with ordinality as m (task_id, ordinal, reason, place) order by m.task_id, m.place) n
    join {schema}.task t on t.id = n.task_id
    on conflict (task_id) where resolved_at is null do nothing
$$;
