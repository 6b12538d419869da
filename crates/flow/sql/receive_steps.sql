/* receive_steps */
-- The steps of some names ($2) in the namespaces beside them ($1) that are due, $3 at most: what whoever claims now would find. Nothing is taken.
-- Index: step_due of each lane.
select s.task_id, s.ordinal, n.name as namespace, l.name as step, l.priority, s.attempt
from unnest($1::text[], $2::text[]) as q (namespace, step)
join {schema}.namespace n on n.name = q.namespace
join {schema}.step_lane l on l.namespace_id = n.id and l.name = q.step
cross join lateral (
    select s.task_id, s.ordinal, s.attempt, s.due_at from {schema}.step s where s.lane_id = l.id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at limit $3
) s
order by l.priority desc, s.due_at
limit $3
