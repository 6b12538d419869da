/* import_begin */
-- An import begins, unless it has already. $1 source text  $2 first stage text
insert into {schema}.imports (source, stage) values ($1, $2) on conflict do nothing
