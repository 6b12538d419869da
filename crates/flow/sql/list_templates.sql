/* list_templates */
-- Templates of a namespace ($1) and a name ($2); null: of all. In order of namespace, name and registration, those after one ($3; null: from the first), $4 at most.
-- Index: the names; a count for each of the page. Templates are few.
select n.name as namespace, t.name, t.version, t.document, t.created_at, t.id,
       (select count(*) from {schema}.definition d where d.template_id = t.id) as steps
from {schema}.template t
join {schema}.namespace n on n.id = t.namespace_id
where ($1::text is null or n.name = $1) and ($2::text is null or t.name = $2)
  and ($3::integer is null or (n.name, t.name, t.id) > (select m.name, l.name, l.id from {schema}.template l join {schema}.namespace m on m.id = l.namespace_id where l.id = $3))
order by n.name, t.name, t.id
limit $4
