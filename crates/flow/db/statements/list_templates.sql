/* list_templates */
-- Templates of a namespace ($1) and a name ($2); null: of all. In order of namespace, name and registration, those
-- after one ($3; null: from the first), $4 at most. None if there is no such one. Documents are not read.
-- Index: namespace_name_key and template_listed, from the one ($3) forwards; `+ 0` leaves no other index to choose.
-- Pages: beside 20 000 templates, 100 of them from the first 102, from the middle 37.
with after as materialized (
    select n.name as namespace, t.name, t.id
    from {schema}.template t
    join {schema}.namespace n on n.id = t.namespace_id
    where t.id = $3
)
select n.name as namespace, t.name, t.version, t.description, t.step_count, t.created_at, t.id
from {schema}.namespace n
cross join lateral (
    (select t.* from {schema}.template t
     where t.namespace_id + 0 = n.id and ($2::text is null or t.name = $2)
       and n.name = (select a.namespace from after a)
       and (t.name, t.id) > ((select a.name from after a), (select a.id from after a))
     order by t.name, t.id limit $4)
    union all
    (select t.* from {schema}.template t
     where t.namespace_id + 0 = n.id and ($2::text is null or t.name = $2)
       and n.name is distinct from (select a.namespace from after a)
     order by t.name, t.id limit $4)
) t
where ($1::text is null or n.name = $1) and n.name >= coalesce((select a.namespace from after a), '')
  and ($3::integer is null or exists (select from after))
order by n.name, t.name, t.id
limit $4
