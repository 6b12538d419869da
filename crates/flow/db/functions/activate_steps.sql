-- Creates steps (not_created → pending), and those that follow: a convergence if one of its parents is created, any
-- other step if all are. Steps after a decision and parts of a batch are not created by this.
-- Locks: the caller holds that of the task.
-- Cost:  the steps after those.
create or replace function {schema}.activate_steps(of_task uuid, of_template integer, steps integer[]) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    front integer[] := steps;
begin
    while front <> '{}' loop
        update {schema}.step s
        set state = 'pending', created_at = now(), since = now()
        where s.task_id = of_task and s.ordinal = any (front) and s.state = 'not_created';
        front := array(
            select distinct child.ordinal
            from {schema}.definition parent
            cross join unnest(parent.children) as c (ordinal)
            cross join lateral (
                select d.* from {schema}.definition d where d.template_id = of_template and d.ordinal = c.ordinal
                offset 0
            ) child
            cross join lateral (
                select from {schema}.step s
                where s.task_id = of_task and s.ordinal = c.ordinal and s.state = 'not_created'
                offset 0
            ) waiting
            where parent.template_id = of_template and parent.ordinal = any (front) and child.kind <> 'batch_worker'
              and (child.kind = 'deferred_convergence' or not exists (
                  select from unnest(child.parents) as p (ordinal)
                  cross join lateral (
                      select s.state from {schema}.step s where s.task_id = of_task and s.ordinal = p.ordinal offset 0
                  ) other
                  cross join lateral (
                      select d.kind from {schema}.definition d
                      where d.template_id = of_template and d.ordinal = p.ordinal
                      offset 0
                  ) other_definition
                  where other.state in ('not_created', 'skipped') or other_definition.kind = 'decision')));
    end loop;
end
$$;
