-- Counts tasks and steps, for operators.
-- top:     so many namespaces have rows of their own, those with most open tasks; the others are summed, without a
--          name.
-- counted: tasks of a namespace in a state, steps in total, and investigations: at most so many are counted.
-- Rows:    `kind` tasks: of a namespace in a state. open_tasks: by what they wait for. steps: those that are ready, in
--          progress or wait for a retry; and of open tasks those that are pending or have ended. oldest_ready: how long
--          the step that is ready longest has waited, in seconds. failed: tasks with a permanent failure.
--          investigations: open ones, in all namespaces.
-- Index:   task_listed and task_failed, index-only; step_due_in_namespace, from each queue with such steps to the next;
--          of open tasks the rows, and their steps by the primary key, until so many steps are counted;
--          investigation_open. Of tasks that have ended nothing is read but the entries of task_listed that are
--          counted.
-- Pages:   1 000 000 finished tasks in one namespace and 10 000 open ones with a ready step each: 39 000 pages, all
--          in memory, 0.14 s beside other work. The caller bounds its time and how often it is asked.
create or replace function {schema}.flow_figures(top bigint, counted bigint)
returns table (kind text, namespace text, state text, amount bigint, oldest float8)
language sql stable set search_path = reveille_own set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
    with recursive live_queue as (
        (select s.namespace_queue_id, s.due_at from {schema}.step s
         where s.due_at < 'infinity' order by s.namespace_queue_id, s.due_at limit 1)
        union all
        select n.namespace_queue_id, n.due_at
        from live_queue l
        cross join lateral (
            select s.namespace_queue_id, s.due_at from {schema}.step s
            where s.namespace_queue_id > l.namespace_queue_id and s.due_at < 'infinity'
                order by s.namespace_queue_id, s.due_at limit 1) n
    ), counted_namespace as materialized (
        select n.id, n.name, o.amount as open, row_number() over (order by o.amount desc, n.id) as index
        from {schema}.namespace n
        cross join lateral (
            select count(*) as amount from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = 'open' limit counted) t) o
    ), listed as materialized (
        select s.id, case when s.index <= top then s.name end as name, s.open from counted_namespace s
    ), live as materialized (
        -- The id of a queue begins with its namespace; that of the engine's queue with none.
        select coalesce(nullif(s.namespace_queue_id >> 40, 0), (
                   select t.namespace_id from {schema}.task t where t.id = s.task_id)) as namespace_id,
               s.task_id, s.state, s.due_at
        from {schema}.step s where s.due_at < 'infinity' limit counted
    ), open_step as materialized (
        select n.name, s.state
        from listed n
        cross join lateral (
            select t.id from {schema}.task t where t.namespace_id = n.id and t.state = 'open' limit counted) t
        -- A task of many steps must not use up the count.
        cross join lateral (select s.state from {schema}.step s where s.task_id = t.id limit counted / 10) s
        limit counted
    ), open_task as materialized (
        -- A task with a failure is open only while a step is in progress.
        select n.name, t.state, count(*) as amount
        from (
            select s.namespace_id, case
                       when bool_or(s.state = 'in_progress') then 'steps_in_process'
                       when bool_or(s.state = 'ready' or s.due_at <= now()) then 'enqueuing_steps'
                       else 'waiting_for_retry' end as state
            from live s
            group by s.namespace_id, s.task_id
        ) t
        join listed n on n.id = t.namespace_id
        group by n.name, t.state
    )
    select 'tasks', n.name, a.state, sum(a.amount)::bigint, null::float8
    from listed n
    cross join lateral (
        select 'open' as state, n.open as amount
        union all
        select ended.state::text, (
            select count(*) from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = ended.state limit counted) t)
        from unnest('{complete,error,cancelled,resolved_manually}'::{schema}.task_state[]) as ended (state)
    ) a
    group by n.name, a.state
    union all
    select 'steps', n.name, s.state::text, count(*), null
    from live s
    join listed n on n.id = s.namespace_id
    group by n.name, s.state
    union all
    select 'steps', s.name, s.state::text, count(*), null
    from open_step s
    where s.state in ('pending', 'complete', 'error', 'cancelled', 'resolved_manually')
    group by s.name, s.state
    union all
    select 'open_tasks', o.name, o.state, o.amount, null from open_task o
    union all
    -- The other tasks, if every live step was counted.
    select 'open_tasks', n.name, 'waiting_for_dependencies', greatest(n.open - coalesce(o.amount, 0), 0)::bigint, null
    from (select n.name, sum(n.open) as open from listed n group by n.name) n
    left join (select o.name, sum(o.amount) as amount from open_task o group by o.name) o
        on o.name is not distinct from n.name
    where (select count(*) from live) < counted
    union all
    select 'oldest_ready', n.name, null, count(*), extract(epoch from now() - min(l.due_at))::float8
    from (select l.namespace_queue_id, l.due_at from live_queue l limit counted) l
    join listed n on n.id = l.namespace_queue_id >> 40
    where l.due_at <= now()
    group by n.name
    union all
    select 'failed', n.name, null, sum(a.amount)::bigint, null
    from listed n
    cross join lateral (
        select count(*) as amount from (
            select from {schema}.task t where t.namespace_id = n.id and t.failed > 0 limit counted) t) a
    group by n.name
    union all
    select 'investigations', null, null, count(*), null
    from (select from {schema}.investigation i where i.resolved_at is null limit counted) i
$$;
