/* backend */
-- The process id of this connection's backend, as notifications carry it.
select pg_backend_pid()
