/* below_scan_bounds */
-- The first step of each queue ($1, ids) below its scan lower bound ($2, in microseconds since the Unix epoch), which
-- functions/claim_steps.sql does not read. With 0 as the number of the name, an id is a namespace queue.
-- Rows:  the queues that have such a step, and when it was due.
-- Index: step_due_in_namespace and step_due_in_queue forwards. Beside a transaction of five minutes and 5 000 steps per
--        second it reads two million dead entries in a second, which is why no claim waits for it.
select w.queue_id, (extract(epoch from s.due_at) * 1000000)::bigint as due_us
from unnest($1::bigint[], $2::bigint[]) as w (queue_id, bound_us)
cross join lateral (
    (select s.due_at from {schema}.step s
     where (w.queue_id & 1099511562240) = 0 and s.namespace_queue_id = w.queue_id
       and s.due_at < to_timestamp(w.bound_us / 1000000::float8) and s.due_at < 'infinity'
     order by s.due_at limit 1)
    union all
    (select s.due_at from {schema}.step s
     where (w.queue_id & 1099511562240) <> 0 and s.queue_id = w.queue_id
       and s.due_at < to_timestamp(w.bound_us / 1000000::float8) and s.due_at < 'infinity'
     order by s.due_at limit 1)
) s
