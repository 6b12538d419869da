-- Divides the batch worker after a batchable step into parts, one for each input, named `<name>_001` and so on.
-- Without inputs its one part is a placeholder, which the caller completes.
-- Answers how many steps there are more.
-- Locks: the caller holds that of the task.
create or replace function {schema}.divide(
    of_task uuid, of_template integer, divided integer, inputs text[]
) returns integer
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    more  integer := greatest(cardinality(inputs), 1) - 1;
    first integer;
begin
    update {schema}.task t set next_ordinal = t.next_ordinal + more where t.id = of_task
    returning t.next_ordinal - more into first;
    update {schema}.step s
    set state = 'pending', part = 1, created_at = now(), since = now()
    where s.task_id = of_task and s.ordinal = divided;
    insert into {schema}.step (
        task_id, ordinal, slot, part, queue_id, state, open_parents, due_at, created_at, ready_at)
    select of_task, first + number - 2, divided, number, s.queue_id,
           case when t.failed = 0 then 'ready' else 'pending' end::{schema}.step_state, 0,
           case when t.failed = 0 then now() else 'infinity' end, now(), case when t.failed = 0 then now() end
    from {schema}.step s, {schema}.task t, generate_series(2, more + 1) as number
    where s.task_id = of_task and s.ordinal = divided and t.id = of_task;
    insert into {schema}.step_data (task_id, ordinal, input)
    select of_task, case i.part when 1 then divided else first + i.part::integer - 2 end, i.input
    from unnest(inputs) with ordinality as i (input, part);
    -- The steps after it wait for all parts.
    update {schema}.step s
    set open_parents = s.open_parents + more
    from {schema}.definition d
    cross join unnest(d.children) as c (ordinal)
    where d.template_id = of_template and d.ordinal = divided
      and s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('not_created', 'pending');
    perform {schema}.activate_steps(of_task, of_template, array[divided]);
    return more;
end
$$;
