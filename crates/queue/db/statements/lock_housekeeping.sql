/* lock_housekeeping */
-- Takes the lock of housekeeping until the end of the transaction. False if another server has it.
select pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/housekeeping', 3))
