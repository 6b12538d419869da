/* receive_steps */
-- The due steps with some names ($2), each in a namespace ($1), at most $3: those that a claim would find. Nothing is
-- claimed.
-- Index: step_due_in_queue of the queues that have steps.
select s.task_id, s.ordinal, n.name as namespace, q.step, ((l.queue_id & 65535) - 32768)::smallint as priority,
    s.attempt
from unnest($1::text[], $2::text[]) as q (namespace, step)
join {schema}.namespace n on n.name = q.namespace
cross join lateral (
    select l.id >> 16 << 16 as since from {schema}.step_queue l where l.namespace_id = n.id and l.name = q.step limit 1
) r
cross join lateral {schema}.live_queues(array[r.since], array[r.since + 65535]) l
cross join lateral (
    select s.task_id, s.ordinal, s.attempt, s.due_at from {schema}.step s
    where s.queue_id = l.queue_id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at limit $3
) s
where l.due_at <= now()
order by l.queue_id & 65535 desc, s.due_at
limit $3
