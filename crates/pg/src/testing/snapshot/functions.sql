-- Functions and procedures: signature, language, volatility and settings, as the server writes them. Their bodies
-- are in files of their own.
-- Ordered by the bare names of their arguments' types: a full name would sort by how the schema's name is quoted.
select split_part(pg_get_functiondef(p.oid), E'\nAS $', 1) || ';' as definition
from pg_catalog.pg_proc as p
where p.pronamespace = quote_ident({schema_text})::regnamespace and p.prokind <> 'a'
order by p.proname, array(select t.typname
                          from unnest(p.proargtypes) with ordinality as argument (type, number)
                          join pg_catalog.pg_type as t on t.oid = argument.type
                          order by argument.number)
