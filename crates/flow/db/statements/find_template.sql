/* find_template */
-- The template of a namespace ($1), name ($2) and version ($3), as it was registered.
select t.id, t.document
from {schema}.namespace n
join {schema}.template t on t.namespace_id = n.id
where n.name = $1 and t.name = $2 and t.version = $3
