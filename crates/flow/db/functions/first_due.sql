-- The queues (`whole`) or lanes of some ranges, each with from where it was read and when its first step is due: those
-- that have steps, and those that are known.
-- froms, tos: the ranges, in order, bounds included. known, bounds_us: see functions/claim_steps.sql.
-- Index: step_due or step_lane_due. A lookup for each that is known, from its floor; what lies between them from one to
--        the next.
-- Plan:  inlined into the statement that calls it.
create or replace function {schema}.first_due(
    whole boolean, froms bigint[], tos bigint[], known bigint[], bounds_us bigint[]
) returns table (id bigint, floor timestamptz, due_at timestamptz)
language sql stable
as $$
    with mine as materialized (
        -- Found by halves: there may be a thousand of both.
        select k.id, w.place, to_timestamp(k.bound_us / 1000000::float8) as floor
        from unnest(known, bounds_us) as k (id, bound_us)
        cross join lateral (select width_bucket(k.id, froms) as place offset 0) w
        where k.id <= tos[w.place]
    ), gap as materialized (
        -- What lies between them, within the ranges.
        select array_agg(g.after + 1) as froms, array_agg(g.before - 1) as tos
        from (
            select b.at as after, lead(b.at) over (partition by b.place order by b.at) as before
            from (
                select m.place, m.id as at from mine m
                union all
                select r.place, e.at
                from unnest(froms, tos) with ordinality as r (since, until, place)
                cross join unnest(array[r.since - 1, r.until + 1]) as e (at)
            ) b
        ) g
        where g.before - g.after > 1
    ), read as (
        select m.id, coalesce(m.floor, '-infinity') as floor, f.due_at
        from mine m
        left join lateral (
            (select s.due_at from {schema}.step s
             where whole and s.queue_id = m.id and s.due_at >= coalesce(m.floor, '-infinity')
                 and s.due_at < 'infinity'
               and s.due_at <= case when m.floor is null then 'infinity' else now() end
             order by s.due_at limit 1)
            union all
            (select s.due_at from {schema}.step s
             where not whole and s.lane_id = m.id and s.due_at >= coalesce(m.floor, '-infinity')
                 and s.due_at < 'infinity'
               and s.due_at <= case when m.floor is null then 'infinity' else now() end
             order by s.due_at limit 1)
        ) f on true
        union all
        select q.queue_id, '-infinity', q.due_at
        from gap g cross join lateral {schema}.live_queues(g.froms, g.tos) q where whole
        union all
        select l.lane_id, '-infinity', l.due_at
        from gap g cross join lateral {schema}.live_lanes(g.froms, g.tos) l where not whole
    )
    select r.id, r.floor, r.due_at from read r
$$;
