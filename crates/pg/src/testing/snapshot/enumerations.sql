-- Enumerations, with their values in order.
select format('create type %s as enum (%s);', t.oid::regtype,
              (select string_agg(quote_literal(e.enumlabel), ', ' order by e.enumsortorder)
               from pg_catalog.pg_enum as e
               where e.enumtypid = t.oid)) as definition
from pg_catalog.pg_type as t
where t.typnamespace = quote_ident({schema_text})::regnamespace and t.typtype = 'e'
order by t.typname
