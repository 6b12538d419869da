-- Applies the result of a decision or of a batchable step to the steps after it.
-- chosen, inputs: see functions/decide.sql and functions/divide.sql; null: none.
-- Answers by how much the number of unfinished steps changes, and the ordinal of a step that was created complete, if
-- any: its children have to be counted down.
-- Locks: the caller holds that of the task.
create or replace function {schema}.apply_result(
    of_task uuid, of_template integer, step integer, kind {schema}.step_kind, chosen integer[], inputs text[],
    out change integer, out done integer
)
language plpgsql volatile set search_path = reveille_own
as $$
declare
    divided integer;
begin
    if kind = 'decision' then
        change := -{schema}.decide(of_task, of_template, step, coalesce(chosen, '{}'));
        return;
    end if;
    select worker.ordinal into divided
    from {schema}.definition d
    join {schema}.definition worker
        on worker.template_id = d.template_id and worker.ordinal = any (d.children) and worker.kind = 'batch_worker'
    where d.template_id = of_template and d.ordinal = step;
    change := {schema}.divide(of_task, of_template, divided, coalesce(inputs, '{}'));
    if coalesce(inputs, '{}') = '{}' then
        -- A batch without parts has a placeholder, which is complete at once.
        update {schema}.step s
        set state = 'complete', fence = 1, open_parents = 0, since = now()
        where s.task_id = of_task and s.ordinal = divided;
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, result)
        values (of_task, divided, 1, 0, 'complete', '{"batch_placeholder":true}');
        change := change - 1;
        done := divided;
    end if;
end
$$;
