/* wait_briefly */
-- Sets how long this transaction waits for a lock: many times as long as a push holds its partition.
-- Rows:  one, without meaning.
select set_config('lock_timeout', '1s', true)
