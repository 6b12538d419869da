/* due_namespaces */
-- Which of these sources have a step that is due, as places from 1. A source is a namespace ($1) and its steps by name; `lasts` ($2) says where the names ($3) of each end, and `every` ($4) that
-- it is about all names but those.
-- Index: step_due of each lane.
select distinct q.place::integer
from unnest($1::text[], $2::integer[], $4::boolean[]) with ordinality as q (namespace, last, every, place)
join {schema}.namespace n on n.name = q.namespace
join {schema}.step_lane l on l.namespace_id = n.id
    and q.every <> (l.name = any (($3::text[])[coalesce(($2::integer[])[q.place - 1], 0) + 1:q.last]))
where exists (select from {schema}.step s where s.lane_id = l.id and s.due_at <= now() and s.due_at < 'infinity')
