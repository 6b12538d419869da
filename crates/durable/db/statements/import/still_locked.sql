/* import_still_locked */
-- Fails if the transaction that holds the locks has ended. Sent often enough that idle_in_transaction_session_timeout
-- does not end it.
select 1
