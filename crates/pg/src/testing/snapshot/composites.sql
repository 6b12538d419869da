-- Composite types with their attributes.
select 'create type ' || c.oid::regclass::text || ' as (' || E'\n    ' || string_agg(
           quote_ident(a.attname) || ' ' || format_type(a.atttypid, a.atttypmod), E',\n    ' order by a.attnum
       ) || E'\n);' as definition
from pg_catalog.pg_class as c
join pg_catalog.pg_attribute as a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relnamespace = quote_ident({schema_text})::regnamespace and c.relkind = 'c'
group by c.oid, c.relname
order by c.relname
