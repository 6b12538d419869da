-- Take the migration lock of this schema; it and the timeouts end with the transaction.
-- A migration may run for a long time, but must not wait long for a table lock: later queries would queue behind it.
set local statement_timeout = 0;
set local lock_timeout = {lock_wait};
select pg_advisory_xact_lock({key});
set local lock_timeout = {table_wait};
