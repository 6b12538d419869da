-- Carries out what the result of a decision ('d'), or of a step that divides another ('b'), says of the steps behind it.
-- chosen, inputs: see functions/decide.sql and functions/divide.sql; null: none.
-- Answers how many steps there are left to do more than before, and the place of one that is done as soon as it came to be, if there is such a one: what follows that has to be counted down.
-- Locks: the caller has that of the task.
create or replace function {schema}.follow(of_task uuid, of_template integer, step integer, kind "char", chosen integer[], inputs text[], out change integer, out done integer)
language plpgsql volatile set search_path = reveille_own
as $$
declare
    divided integer;
begin
    if kind = 'd' then
        change := -{schema}.decide(of_task, of_template, step, coalesce(chosen, '{}'));
        return;
    end if;
    select w.ordinal into divided
    from {schema}.definition d join {schema}.definition w on w.template_id = d.template_id and w.ordinal = any (d.children) and w.kind = 'w'
    where d.template_id = of_template and d.ordinal = step;
    change := {schema}.divide(of_task, of_template, divided, coalesce(inputs, '{}'));
    if coalesce(inputs, '{}') = '{}' then
        -- A placeholder.
        update {schema}.step s set state = 'c', fence = 1, waiting = 0, since = now() where s.task_id = of_task and s.ordinal = divided;
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, result) values (of_task, divided, 1, 0, 'c', '{"batch_placeholder":true}');
        change := change - 1;
        done := divided;
    end if;
end
$$;
