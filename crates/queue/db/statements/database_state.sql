/* database_state */
-- The database: its version, its size, the number of connections, and the age of the oldest transaction.
select current_setting('server_version') as version, pg_database_size(current_database()) as bytes, count(*)
    as connections,
       count(*) filter (where a.state = 'active') as active,
           coalesce(max(extract(epoch from now() - a.xact_start)), 0)::float8 as oldest_transaction_seconds
from pg_stat_activity a
where a.datname = current_database()
