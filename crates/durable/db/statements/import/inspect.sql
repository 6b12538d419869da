/* import_inspect */
-- Whether a schema is what it should be. $1 schema text  $2 tables text[]  $3 a column of each text[]
-- Rows:  one: whether there is such a schema, whether duroxide's ledger is in it, and which columns are missing.
select exists (select from pg_namespace n where n.nspname = $1),
       exists (select from pg_class c join pg_namespace n on n.oid = c.relnamespace
               where n.nspname = $1 and c.relname = '_duroxide_migrations'),
       array(select m.tab || '.' || m.col from unnest($2::text[], $3::text[]) with ordinality as m (tab, col, place)
             where not exists (select from pg_attribute a
                               join pg_class c on c.oid = a.attrelid join pg_namespace n on n.oid = c.relnamespace
                               where n.nspname = $1 and c.relname = m.tab and a.attname = m.col and not a.attisdropped)
             order by m.place)
