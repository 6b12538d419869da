-- The lanes of some ranges that have a step which is due, leased or to be tried again, and when the first of each is
-- next due. froms, tos: the ranges, bounds included.
-- Index: step_lane_due, from one lane to the next: a lookup for each range, and one for each lane that is answered.
--        What was ever used and is empty costs nothing.
-- Plan:  inlined into the statements that call it.
create or replace function {schema}.live_lanes(froms bigint[], tos bigint[]) returns table (lane_id bigint,
    due_at timestamptz)
language sql stable
as $$
    with recursive live (lane_id, due_at, until) as (
        select s.lane_id, s.due_at, r.until
        from unnest(froms, tos) as r (since, until)
        cross join lateral (
            select s.lane_id, s.due_at from {schema}.step s
            where s.lane_id >= r.since and s.lane_id <= r.until and s.due_at < 'infinity'
            order by s.lane_id, s.due_at limit 1
        ) s
        union all
        select s.lane_id, s.due_at, l.until
        from live l
        cross join lateral (
            select s.lane_id, s.due_at from {schema}.step s
            where s.lane_id > l.lane_id and s.lane_id <= l.until and s.due_at < 'infinity'
            order by s.lane_id, s.due_at limit 1
        ) s
    )
    select l.lane_id, l.due_at from live l
$$;
