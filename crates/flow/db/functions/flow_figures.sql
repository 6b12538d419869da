-- How tasks and steps stand, for operators.
-- top:     so many namespaces by themselves, those with most open tasks; the others are summed up, without a name.
-- counted: tasks of a namespace in a state, steps altogether, and tasks to be looked into: so many are counted at most.
-- Rows:    `kind` t: tasks of a namespace in a state. o: open tasks by what they wait for. s: steps that are ready, with
--          a worker, or wait for another attempt; and of open tasks those that wait for others or have ended.
--          r: for how long the step that can be claimed and has waited longest has waited, in seconds.
--          f: tasks in which something failed for good. i: tasks with an open investigation, in all namespaces.
-- Index:   task_listed and task_failed, index-only; step_due, from each queue with such steps to the next; of open
--          tasks the rows, and their steps by the primary key, until so many steps are counted; investigation_open. Of
--          tasks that have ended nothing is read but the entries of task_listed that are counted.
-- Pages:   1 000 000 finished tasks in one namespace and 10 000 open ones with a ready step each: 39 000 pages, all
--          in memory, 0.14 s beside other work. The caller bounds its time and how often it is asked.
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
        -- The id of a queue begins with its namespace; that of the engine's own with none.
        select coalesce(nullif(s.queue_id >> 40, 0), (
                   select t.namespace_id from {schema}.task t where t.id = s.task_id)) as namespace_id,
               s.task_id, s.state, s.due_at
        from {schema}.step s where s.due_at < 'infinity' limit counted
    ), open_step as materialized (
        select n.name, s.state
        from told n
        cross join lateral (
            select t.id from {schema}.task t where t.namespace_id = n.id and t.state = 'o' limit counted) t
        -- A task of many steps leaves room for others.
        cross join lateral (select s.state from {schema}.step s where s.task_id = t.id limit counted / 10) s
        limit counted
    ), open_task as materialized (
        -- One that failed is open only while a worker has a step of it.
        select n.name, t.state, count(*) as amount
        from (
            select s.namespace_id, case
                       when bool_or(s.state = 'i') then 'steps_in_process'
                       when bool_or(s.state = 'r' or s.due_at <= now()) then 'enqueuing_steps'
                       else 'waiting_for_retry' end as state
            from live s
            group by s.namespace_id, s.task_id
        ) t
        join told n on n.id = t.namespace_id
        group by n.name, t.state
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
    join told n on n.id = s.namespace_id
    group by n.name, 3
    union all
    select 's', s.name, w.word, count(*), null
    from open_step s
    join (values ('p'::"char", 'pending'), ('c', 'complete'), ('e', 'error'), ('x', 'cancelled'),
                 ('m', 'resolved_manually')) as w (state, word) on w.state = s.state
    group by s.name, w.word
    union all
    select 'o', o.name, o.state, o.amount, null from open_task o
    union all
    -- The others, if every step that can go on was counted.
    select 'o', n.name, 'waiting_for_dependencies', greatest(n.open - coalesce(o.amount, 0), 0)::bigint, null
    from (select n.name, sum(n.open) as open from told n group by n.name) n
    left join (select o.name, sum(o.amount) as amount from open_task o group by o.name) o
        on o.name is not distinct from n.name
    where (select count(*) from live) < counted
    union all
    select 'r', n.name, null, count(*), extract(epoch from now() - min(l.due_at))::float8
    from (select l.queue_id, l.due_at from live_queue l limit counted) l
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
