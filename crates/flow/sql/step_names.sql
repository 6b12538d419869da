/* step_names */
-- The names of the steps of some namespaces ($1), but those that are left out ($2); of these names only ($3), unless it is null.
-- Index: the lanes, which are few.
select distinct n.name as namespace, l.name as step
from {schema}.namespace n join {schema}.step_lane l on l.namespace_id = n.id
where n.name = any ($1) and l.name <> all ($2) and ($3::text[] is null or l.name = any ($3))
