-- How tasks and steps stand, for operators.
-- top:     so many namespaces by themselves, those with most open tasks; the others are summed up, without a name.
-- counted: tasks of a namespace in a state, steps altogether, and tasks to be looked into: so many are counted at most.
-- Rows:    `kind` t: tasks of a namespace in a state. s: steps that are ready, with a worker, or wait for another
--          attempt. r: for how long the step that can be claimed and has waited longest has waited, in seconds.
--          f: tasks in which something failed for good. i: tasks with an open investigation, in all namespaces.
-- Index:   task_listed and task_failed, index-only; step_due, from each queue with such steps to the next; of
--          task the primary key, for each step that is counted; investigation_open. Nothing that has ended is read but
--          the entries of task_listed that are counted.
-- Pages:   1 000 000 finished tasks in one namespace and 10 000 open ones with a ready step each: 52 000 pages, all in
--          memory, 0.1 s on an idle machine. The caller bounds its time and how often it is asked.
create or replace function {schema}.flow_figures(top bigint, counted bigint)
returns table (kind text, namespace text, state text, amount bigint, oldest float8)
language sql stable set search_path = reveille_own set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
    with recursive live_queue as (
        (select s.queue_id, s.due_at from {schema}.step s
         where s.due_at < 'infinity' order by s.queue_id, s.due_at limit 1)
        union all
        select n.queue_id, n.due_at
        from live_queue l
        cross join lateral (
            select s.queue_id, s.due_at from {schema}.step s
            where s.queue_id > l.queue_id and s.due_at < 'infinity' order by s.queue_id, s.due_at limit 1) n
    ), space as materialized (
        select n.id, n.name, o.amount as open, row_number() over (order by o.amount desc, n.id) as place
        from {schema}.namespace n
        cross join lateral (
            select count(*) as amount from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = 'o' limit counted) t) o
    ), told as materialized (
        select s.id, case when s.place <= top then s.name end as name, s.open from space s
    ), live as materialized (
        select s.task_id, s.state from {schema}.step s where s.due_at < 'infinity' limit counted
    )
    select 't', n.name, a.state, sum(a.amount)::bigint, null::float8
    from told n
    cross join lateral (
        select 'open' as state, n.open as amount
        union all
        select w.word, (
            select count(*) from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = w.state limit counted) t)
        from (values ('c'::"char", 'complete'), ('e', 'error'), ('x', 'cancelled'),
                     ('m', 'resolved_manually')) as w (state, word)
    ) a
    group by n.name, a.state
    union all
    select 's', n.name, case s.state when 'r' then 'ready' when 'i' then 'in_progress' else 'waiting_for_retry' end,
           count(*), null
    from live s
    join {schema}.task t on t.id = s.task_id
    join told n on n.id = t.namespace_id
    group by n.name, 3
    union all
    select 'r', n.name, null, count(*), extract(epoch from now() - min(l.due_at))::float8
    from (select l.queue_id, l.due_at from live_queue l limit counted) l
    -- The id of a queue begins with its namespace; that of the engine's own with none.
    join told n on n.id = l.queue_id >> 40
    where l.due_at <= now()
    group by n.name
    union all
    select 'f', n.name, null, sum(a.amount)::bigint, null
    from told n
    cross join lateral (
        select count(*) as amount from (
            select from {schema}.task t where t.namespace_id = n.id and t.failed > 0 limit counted) t) a
    group by n.name
    union all
    select 'i', null, null, count(*), null
    from (select from {schema}.investigation i where i.resolved_at is null limit counted) i
$$;
