/* names_by_callable */
-- The names of steps in some namespaces ($1) that have one of some callables ($2), at most $3; each with another
-- callable that the name has in one of these namespaces, and the template; null: none.
-- Index: definition_callable and definition_name; then the primary keys of templates and namespaces.
select distinct on (d.name) d.name, o.callable as other_callable, o.template as other_template
from {schema}.definition d
cross join lateral (select t.namespace_id from {schema}.template t where t.id = d.template_id offset 0) t
cross join lateral (select n.name from {schema}.namespace n where n.id = t.namespace_id offset 0) n
left join lateral (
    select o.callable, p.name || ' ' || p.version as template
    from {schema}.definition o
    join {schema}.template p on p.id = o.template_id
    join {schema}.namespace m on m.id = p.namespace_id
    where o.name = d.name and o.callable <> all ($2) and m.name = any ($1)
    limit 1
) o on true
where d.callable = any ($2) and n.name = any ($1)
order by d.name
limit $3
