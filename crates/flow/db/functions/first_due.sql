-- The namespace queues (`whole`) or step queues of some ranges, each with where its scan began and when its first step
-- is due: those that have steps, and those that are known.
-- froms, tos: the ranges, in order, bounds included. known, bounds_us: see functions/claim_steps.sql.
-- Index: step_due_in_namespace or step_due_in_queue. A lookup for each known queue, from its bound; between them from
--        one queue to the next.
-- Plan:  inlined into the statement that calls it.
create or replace function {schema}.first_due(
    whole boolean, froms bigint[], tos bigint[], known bigint[], bounds_us bigint[]
) returns table (id bigint, bound timestamptz, due_at timestamptz)
language sql stable
as $$
    with known_queue as materialized (
        -- A binary search: there may be a thousand of both.
        select k.id, r.index, to_timestamp(k.bound_us / 1000000::float8) as bound
        from unnest(known, bounds_us) as k (id, bound_us)
        cross join lateral (select width_bucket(k.id, froms) as index offset 0) r
        where k.id <= tos[r.index]
    ), gap as materialized (
        -- The ids between them, within the ranges.
        select array_agg(g.after + 1) as froms, array_agg(g.before - 1) as tos
        from (
            select b.at as after, lead(b.at) over (partition by b.index order by b.at) as before
            from (
                select k.index, k.id as at from known_queue k
                union all
                select r.index, e.at
                from unnest(froms, tos) with ordinality as r (since, until, index)
                cross join unnest(array[r.since - 1, r.until + 1]) as e (at)
            ) b
        ) g
        where g.before - g.after > 1
    ), read as (
        select k.id, coalesce(k.bound, '-infinity') as bound, f.due_at
        from known_queue k
        left join lateral (
            (select s.due_at from {schema}.step s
             where whole and s.namespace_queue_id = k.id and s.due_at >= coalesce(k.bound, '-infinity')
               and s.due_at < 'infinity'
               and s.due_at <= case when k.bound is null then 'infinity' else now() end
             order by s.due_at limit 1)
            union all
            (select s.due_at from {schema}.step s
             where not whole and s.queue_id = k.id and s.due_at >= coalesce(k.bound, '-infinity')
               and s.due_at < 'infinity'
               and s.due_at <= case when k.bound is null then 'infinity' else now() end
             order by s.due_at limit 1)
        ) f on true
        union all
        select q.queue_id, '-infinity', q.due_at
        from gap g
        cross join lateral {schema}.live_namespace_queues(g.froms, g.tos) q
        where whole
        union all
        select q.queue_id, '-infinity', q.due_at
        from gap g
        cross join lateral {schema}.live_queues(g.froms, g.tos) q
        where not whole
    )
    select r.id, r.bound, r.due_at from read r
$$;
