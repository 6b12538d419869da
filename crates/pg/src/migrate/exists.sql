-- Whether the schema and its table of applied migrations exist.
select
    exists (select from pg_catalog.pg_namespace where nspname = {schema_text}),
    exists (
        select
        from pg_catalog.pg_class as c
        join pg_catalog.pg_namespace as n on n.oid = c.relnamespace
        where n.nspname = {schema_text} and c.relname = 'migration' and c.relkind in ('r', 'p')
    )
