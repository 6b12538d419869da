-- Loads steps that were just claimed, with all that their handlers need.
-- waiters: the waiter of each step, from 1; leases_ms: by waiter.
-- Rows:  one per step, in order. `results` is a JSON object: the results of all ancestors by name; of a part that
--        failed, `{"error": …}`. guarded: the engine watches its lease.
-- Index: primary keys. The ancestors of a definition are found once for all its steps: 64 third steps of chains take
--        1.6 ms, where a search for each took 3.2. Where they are stored as ranges (see functions/note_ancestors.sql)
--        steps and attempts are read by these: for the last step of a chain of 10 000 that is 1 153 pages, where a
--        lookup for each result read 140 011.
-- Plan:  made once per session. As a function in SQL it was made at every call, which took 2 ms: five times as long as
--        all the rest of a claim.
create or replace function {schema}.load_claimed_steps(
    tasks uuid[], ordinals integer[], waiters integer[], leases_ms bigint[]
) returns table (
    waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer,
    slot integer, part integer, namespace text, definition_name text, step_name text, callable text,
    initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text,
    checkpoint text, results text, guarded boolean
)
language plpgsql stable set search_path = reveille_own {index_plans} set jit = off
as $$
#variable_conflict use_column
begin
    return query
    select waiters[step.index] - 1, least(leases_ms[waiters[step.index]], definition.timeout_ms), step.task_id,
           step.ordinal, step.fence, step.attempt, kind.template_id, kind.slot, step.part, namespace.name,
           definition.name,
           definition.name || case when step.part is null then '' else '_' || to_char(step.part, 'FM9999000') end,
           definition.callable, definition.initialization, definition.max_attempts, definition.timeout_ms,
           detail.context, detail.correlation_id, data.input, data.checkpoint,
           '{' || coalesce(by_range.results, by_parent.results, '') || '}', step.guarded
    from (
        -- The steps by their definitions.
        select t.template_id, s.slot, array_agg(n.index::integer) as indexes, array_agg(n.task_id) as tasks,
               array_agg(n.ordinal) as ordinals, array_agg(s.fence) as fences, array_agg(s.attempt) as attempts,
               array_agg(s.part) as parts, array_agg(s.queue_id = 0) as guarded
        from unnest(tasks, ordinals) with ordinality as n (task_id, ordinal, index)
        cross join lateral (
            select s.* from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal offset 0
        ) s
        cross join lateral (select t.template_id from {schema}.task t where t.id = n.task_id offset 0) t
        group by t.template_id, s.slot
    ) kind
    cross join lateral (
        select d.* from {schema}.definition d where d.template_id = kind.template_id and d.ordinal = kind.slot offset 0
    ) definition
    cross join lateral (
        select n.name from {schema}.template t
        join {schema}.namespace n on n.id = t.namespace_id
        where t.id = kind.template_id
        offset 0
    ) namespace
    left join lateral (
        -- The ancestors as ranges: the names of all of them in order, and where those of each range begin.
        select r.sinces, r.untils, r.indexes, o.names
        from (
            select array_agg(r.since order by r.since) as sinces, array_agg(r.until order by r.since) as untils,
                   array_agg(r.index order by r.since) as indexes
            from (
                select lower(r.range) as since, upper(r.range) as until,
                       (sum(upper(r.range) - lower(r.range)) over (order by r.range)
                           - upper(r.range) + lower(r.range))::integer as index
                from (
                    select y.ancestors from {schema}.ancestry y
                    where y.template_id = kind.template_id and y.ordinal = kind.slot
                    offset 0
                ) y
                cross join unnest(y.ancestors) as r (range)
            ) r
        ) r
        cross join lateral (
            select jsonb_agg(o.name order by o.ordinal) as names
            from unnest(r.sinces, r.untils) as w (since, until)
            cross join lateral (
                select o.ordinal, o.name from {schema}.definition o
                where o.template_id = kind.template_id and o.ordinal >= w.since and o.ordinal < w.until
                offset 0
            ) o
        ) o
    ) range on true
    cross join lateral (
        -- The ancestors parent by parent, if they are not stored as ranges.
        with recursive ancestor (slot) as (
            select p.slot from unnest(definition.parents) as p (slot) where range.sinces is null
            union
            select p.slot
            from ancestor a
            cross join lateral (
                select o.parents from {schema}.definition o
                where o.template_id = kind.template_id and o.ordinal = a.slot
                offset 0
            ) o
            cross join unnest(o.parents) as p (slot)
        )
        select array_agg(a.slot) as slots, array_agg(o.name) as names, array_agg(o.kind) as kinds
        from ancestor a
        cross join lateral (
            select o.name, o.kind from {schema}.definition o
            where o.template_id = kind.template_id and o.ordinal = a.slot
            offset 0
        ) o
    ) ancestors
    cross join lateral unnest(
        kind.indexes, kind.tasks, kind.ordinals, kind.fences, kind.attempts, kind.parts, kind.guarded
    ) as step (index, task_id, ordinal, fence, attempt, part, guarded)
    cross join lateral (
        select k.context, k.correlation_id from {schema}.task_detail k where k.task_id = step.task_id offset 0
    ) detail
    left join lateral (
        select x.input, x.checkpoint from {schema}.step_data x
        where x.task_id = step.task_id and x.ordinal = step.ordinal
        offset 0
    ) data on true
    cross join lateral (
        select string_agg((range.names -> (w.index + a.ordinal - w.since))::text || ':'
                   || coalesce(a.result, '{"error":' || a.error || '}'), ',') as results
        from unnest(range.sinces, range.untils, range.indexes) as w (since, until, index)
        -- Every definition of a template has a step in each of its tasks: see
        -- docs/decisions/0023-conditional-steps-are-rows-from-the-start.md.
        cross join lateral (
            select array_agg(s.fence order by s.ordinal) as fences from {schema}.step s
            where s.task_id = step.task_id and s.ordinal >= w.since and s.ordinal < w.until
        ) s
        cross join lateral (
            select a.ordinal, a.result, a.error from {schema}.attempt a
            where a.task_id = step.task_id and a.ordinal >= w.since and a.ordinal < w.until
              and a.fence = s.fences[a.ordinal - w.since + 1] and (a.result is not null or a.error is not null)
            offset 0
        ) a
    ) by_range
    cross join lateral (
        select string_agg(
                   to_json(p.name || case when s.part is null then ''
                       else '_' || to_char(s.part, 'FM9999000') end)::text || ':'
                   || coalesce(a.result, '{"error":' || a.error || '}'), ',') as results
        from unnest(ancestors.slots, ancestors.names, ancestors.kinds) as p (slot, name, kind)
        cross join lateral (
            select s.ordinal, s.part, s.fence from {schema}.step s
            where s.task_id = step.task_id and s.ordinal = p.slot
            union all
            -- The parts beyond the first have ordinals beyond the template's.
            select s.ordinal, s.part, s.fence from {schema}.step s
            where p.kind = 'batch_worker' and s.task_id = step.task_id and s.slot = p.slot
              and s.ordinal > (
                  select l.ordinal from {schema}.definition l where l.template_id = kind.template_id
                  order by l.ordinal desc limit 1)
            offset 0
        ) s
        cross join lateral (
            select a.result, a.error from {schema}.attempt a
            where a.task_id = step.task_id and a.ordinal = s.ordinal and a.fence = s.fence
              and (a.result is not null or a.error is not null)
            offset 0
        ) a
    ) by_parent
    order by step.index;
end
$$;
