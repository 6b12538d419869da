/* limits */
-- The limits of a namespace ($1; null: of all), and the number of steps in progress.
select n.name as namespace, m.name as step, m.max_running, m.running
from {schema}.step_limit m
join {schema}.namespace n on n.id = m.namespace_id
where $1::text is null or n.name = $1
order by n.name, m.name
