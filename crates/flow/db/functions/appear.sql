-- Lets steps come to be, and what follows from them: a convergence if one of its parents has, any other step if all have. What waits for a decision, or is a part of a batch, does not
-- appear by itself.
-- Locks: the caller has that of the task.
-- Cost:  the steps behind those.
create or replace function {schema}.appear(of_task uuid, of_template integer, steps integer[]) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    front integer[] := steps;
begin
    while front <> '{}' loop
        update {schema}.step s set state = 'p', came_at = now(), since = now() where s.task_id = of_task and s.ordinal = any (front) and s.state = 'a';
        front := array(
            select distinct k.ordinal
            from {schema}.definition d cross join unnest(d.children) as c (ordinal)
            cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
            cross join lateral (select from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state = 'a' offset 0) s
            where d.template_id = of_template and d.ordinal = any (front) and k.kind <> 'w'
              and (k.kind = 'c' or not exists (
                  select from unnest(k.parents) as p (ordinal)
                  cross join lateral (select o.state from {schema}.step o where o.task_id = of_task and o.ordinal = p.ordinal offset 0) o
                  cross join lateral (select f.kind from {schema}.definition f where f.template_id = of_template and f.ordinal = p.ordinal offset 0) f
                  where o.state in ('a', 's') or f.kind = 'd')));
    end loop;
end
$$;
