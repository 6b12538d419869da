/* limits */
-- The limits, all or those of a namespace ($1), and how many steps are under way.
select n.name as namespace, m.name as step, m.max_running, m.running
from {schema}.step_limit m
join {schema}.namespace n on n.id = m.namespace_id
where $1::text is null or n.name = $1
order by n.name, m.name
