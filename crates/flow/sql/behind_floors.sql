/* behind_floors */
-- The first step of each lane that is due before the lane's floor, in microseconds of the Unix epoch: see functions/claim_steps.sql, which does not read it. $1 lanes integer[]  $2 floors bigint[]
-- Rows:  of the lanes that have one: the lane, and when it was due.
-- Index: step_due of each lane forwards. Beside a transaction of five minutes and 5 000 steps per second it reads two million dead entries in a second, which is why no claim waits for it.
select w.lane_id, (extract(epoch from s.due_at) * 1000000)::bigint as due_us
from unnest($1::integer[], $2::bigint[]) as w (lane_id, floor_us)
cross join lateral (
    select s.due_at from {schema}.step s where s.lane_id = w.lane_id and s.due_at < to_timestamp(w.floor_us / 1000000::float8) and s.due_at < 'infinity' order by s.due_at limit 1
) s
