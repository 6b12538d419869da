-- Take the lock on migrating this schema; it and the limits end with the transaction.
-- A migration may run for long, but must not queue for long in front of everybody else.
set local statement_timeout = 0;
set local lock_timeout = {lock_wait};
select pg_advisory_xact_lock({key});
set local lock_timeout = {table_wait};
