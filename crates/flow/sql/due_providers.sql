/* due_providers */
-- Which of these namespaces ($1), each handed out through a provider ($2), have a step to be sent, as places from 1.
-- Index: step_due of each lane.
select q.place::integer
from unnest($1::text[], $2::text[]) with ordinality as q (namespace, provider, place)
join {schema}.namespace n on n.name = q.namespace and n.provider = q.provider::"char"
where exists (
    select from {schema}.step_lane l cross join lateral (select from {schema}.step s where s.lane_id = l.id and s.due_at <= now() and s.due_at < 'infinity' limit 1) s where l.namespace_id = n.id)
