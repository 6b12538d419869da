-- The schema of Reveille, for an empty database. Apply it unchanged, as the role that Reveille will use:
--     psql --set ON_ERROR_STOP=1 --file this.sql
begin isolation level read committed;
select pg_advisory_xact_lock({key});
create schema if not exists {schema};
