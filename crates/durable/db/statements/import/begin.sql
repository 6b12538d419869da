/* import_begin */
-- Begins an import, unless it has begun already. $1 source text  $2 first stage text
insert into {schema}.imports (source, stage) values ($1, $2) on conflict do nothing
