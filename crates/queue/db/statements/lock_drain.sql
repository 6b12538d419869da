/* lock_drain */
-- Takes the lock of draining buffered pushes until the end of the transaction; waits for it.
select pg_advisory_xact_lock(hashtextextended({schema_text} || '/drain', 3))
