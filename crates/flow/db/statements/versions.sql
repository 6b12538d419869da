/* versions */
-- The versions of a template of a namespace ($1) and a name ($2), in the order in which they were registered; the
-- newest $3 of them.
-- Index: the unique one of the template.
select v.version
from (
    select t.version, t.id
    from {schema}.namespace n
    join {schema}.template t on t.namespace_id = n.id
    where n.name = $1 and t.name = $2
    order by t.id desc
    limit $3
) v
order by v.id
