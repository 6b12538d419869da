/* behind_floors */
-- The first step of each queue or lane ($1, ids) that is due before its floor ($2, in microseconds of the Unix epoch):
-- see functions/claim_steps.sql, which does not read it. A queue has the number 0 where a lane has the number of its
-- name.
-- Rows:  of those that have one: the queue or lane, and when it was due.
-- Index: step_due and step_lane_due forwards. Beside a transaction of five minutes and 5 000 steps per second it reads
--        two million dead entries in a second, which is why no claim waits for it.
select w.lane_id, (extract(epoch from s.due_at) * 1000000)::bigint as due_us
from unnest($1::bigint[], $2::bigint[]) as w (lane_id, bound_us)
cross join lateral (
    (select s.due_at from {schema}.step s
     where (w.lane_id & 1099511562240) = 0 and s.queue_id = w.lane_id
       and s.due_at < to_timestamp(w.bound_us / 1000000::float8) and s.due_at < 'infinity'
     order by s.due_at limit 1)
    union all
    (select s.due_at from {schema}.step s
     where (w.lane_id & 1099511562240) <> 0 and s.lane_id = w.lane_id
       and s.due_at < to_timestamp(w.bound_us / 1000000::float8) and s.due_at < 'infinity'
     order by s.due_at limit 1)
) s
