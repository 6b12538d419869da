-- Carries out what a decision says: of the steps that depend on it the chosen ones come to be, and what follows from them; the others never do, nor what follows from those. A convergence
-- that depends on it need not be chosen.
-- Answers how many never do.
-- Locks: the caller has that of the task.
-- Cost:  the steps behind the decision.
create or replace function {schema}.decide(of_task uuid, of_template integer, decision integer, chosen integer[]) returns integer
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    follow  integer[];
    front   integer[];
    gone    integer;
    skipped integer := 0;
begin
    follow := array(select k.ordinal from {schema}.definition d cross join unnest(d.children) as c (ordinal)
                    cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
                    where d.template_id = of_template and d.ordinal = decision and (k.ordinal = any (chosen) or k.kind = 'c'));
    front := array(select s.ordinal from {schema}.definition d cross join unnest(d.children) as c (ordinal)
                   cross join lateral (select s.ordinal from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('a', 'p') offset 0) s
                   where d.template_id = of_template and d.ordinal = decision and not c.ordinal = any (follow));
    while front <> '{}' loop
        update {schema}.step s set state = 's', since = now() where s.task_id = of_task and s.ordinal = any (front) and s.state in ('a', 'p');
        get diagnostics gone = row_count;
        skipped := skipped + gone;
        -- A convergence waits for one parent less.
        update {schema}.step s set waiting = s.waiting - n.parents
        from (select c.ordinal, count(*)::integer as parents from {schema}.definition d cross join unnest(d.children) as c (ordinal)
              where d.template_id = of_template and d.ordinal = any (front) group by c.ordinal) n
        where s.task_id = of_task and s.ordinal = n.ordinal and s.state in ('a', 'p');
        front := array(
            select distinct k.ordinal
            from {schema}.definition d cross join unnest(d.children) as c (ordinal)
            cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
            cross join lateral (select from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('a', 'p') offset 0) s
            where d.template_id = of_template and d.ordinal = any (front)
              and (k.kind <> 'c' or not exists (select from unnest(k.parents) as p (ordinal)
                                                cross join lateral (select o.state from {schema}.step o where o.task_id = of_task and o.ordinal = p.ordinal offset 0) o where o.state <> 's')));
    end loop;
    perform {schema}.appear(of_task, of_template, follow);
    -- A convergence whose last open question this was.
    update {schema}.step s set state = 'r', due_at = now(), ready_at = now(), since = now()
    from {schema}.definition d, {schema}.task t
    where d.template_id = of_template and d.kind = 'c' and s.task_id = of_task and s.ordinal = d.ordinal and s.state = 'p' and s.waiting = 0 and t.id = of_task and t.failed = 0;
    return skipped;
end
$$;
