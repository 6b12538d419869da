/* import_check_source */
-- Whether a schema has the tables of duroxide-pg. $1 schema text  $2 tables text[]  $3 a column of each text[]
-- Rows:  one: whether the schema exists, whether it has the migration table of duroxide-pg, and the missing columns.
select exists (select from pg_namespace namespace where namespace.nspname = $1),
       exists (
           select from pg_class class
           join pg_namespace namespace on namespace.oid = class.relnamespace
           where namespace.nspname = $1 and class.relname = '_duroxide_migrations'
       ),
       array(
           select expected.table_name || '.' || expected.column_name
           from unnest($2::text[], $3::text[]) with ordinality as expected (table_name, column_name, position)
           where not exists (
               select from pg_attribute attribute
               join pg_class class on class.oid = attribute.attrelid
               join pg_namespace namespace on namespace.oid = class.relnamespace
               where namespace.nspname = $1
                 and class.relname = expected.table_name
                 and attribute.attname = expected.column_name
                 and not attribute.attisdropped
           )
           order by expected.position
       )
