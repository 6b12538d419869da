-- Applies a decision: of the steps that depend on it the chosen ones are created, and what follows from them; the
-- others are skipped, and what follows from those. A convergence that depends on it need not be chosen.
-- Answers how many are skipped.
-- Locks: the caller holds that of the task.
-- Cost:  the steps after the decision.
create or replace function {schema}.decide(
    of_task uuid, of_template integer, decision integer, chosen integer[]
) returns integer
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    created integer[];
    front   integer[];
    moved   integer;
    skipped integer := 0;
begin
    created := array(
        select child.ordinal
        from {schema}.definition d
        cross join unnest(d.children) as c (ordinal)
        cross join lateral (
            select k.ordinal, k.kind from {schema}.definition k
            where k.template_id = of_template and k.ordinal = c.ordinal
            offset 0
        ) child
        where d.template_id = of_template and d.ordinal = decision
          and (child.ordinal = any (chosen) or child.kind = 'deferred_convergence'));
    front := array(
        select child.ordinal
        from {schema}.definition d
        cross join unnest(d.children) as c (ordinal)
        cross join lateral (
            select s.ordinal from {schema}.step s
            where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('not_created', 'pending')
            offset 0
        ) child
        where d.template_id = of_template and d.ordinal = decision and not c.ordinal = any (created));
    while front <> '{}' loop
        update {schema}.step s
        set state = 'skipped', since = now()
        where s.task_id = of_task and s.ordinal = any (front) and s.state in ('not_created', 'pending');
        get diagnostics moved = row_count;
        skipped := skipped + moved;
        -- A convergence waits for one parent less.
        update {schema}.step s
        set open_parents = s.open_parents - fewer.parents
        from (
            select c.ordinal, count(*)::integer as parents
            from {schema}.definition d
            cross join unnest(d.children) as c (ordinal)
            where d.template_id = of_template and d.ordinal = any (front)
            group by c.ordinal
        ) fewer
        where s.task_id = of_task and s.ordinal = fewer.ordinal and s.state in ('not_created', 'pending');
        -- A convergence is skipped if all its parents are, any other step if one is.
        front := array(
            select distinct child.ordinal
            from {schema}.definition d
            cross join unnest(d.children) as c (ordinal)
            cross join lateral (
                select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal
                offset 0
            ) child
            cross join lateral (
                select from {schema}.step s
                where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('not_created', 'pending')
                offset 0
            ) open
            where d.template_id = of_template and d.ordinal = any (front)
              and (child.kind <> 'deferred_convergence' or not exists (
                  select from unnest(child.parents) as p (ordinal)
                  cross join lateral (
                      select s.state from {schema}.step s where s.task_id = of_task and s.ordinal = p.ordinal offset 0
                  ) parent
                  where parent.state <> 'skipped')));
    end loop;
    perform {schema}.activate_steps(of_task, of_template, created);
    -- A convergence whose last undecided parent this was.
    update {schema}.step s
    set state = 'ready', due_at = now(), ready_at = now(), since = now()
    from {schema}.definition d, {schema}.task t
    where d.template_id = of_template and d.kind = 'deferred_convergence'
      and s.task_id = of_task and s.ordinal = d.ordinal and s.state = 'pending' and s.open_parents = 0
      and t.id = of_task and t.failed = 0;
    return skipped;
end
$$;
