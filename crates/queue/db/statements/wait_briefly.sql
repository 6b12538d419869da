/* wait_briefly */
-- Waits for locks in this transaction for many times as long as a push has its partition, and no longer. Rows: one, of
-- no interest.
select set_config('lock_timeout', '1s', true)
