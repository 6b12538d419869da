/* backend */
-- The backend of this connection, as its notifications name it.
select pg_backend_pid()
