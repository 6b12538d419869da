/* prune_dead_batches */
-- Removes what processes that died have left. Sent once per process; the table is small, so it is read whole.
delete from {schema}.write_batch where committed_at < now() - interval '1 day'
