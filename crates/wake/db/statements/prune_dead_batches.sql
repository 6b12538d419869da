/* prune_dead_batches */
-- Removes what dead processes have left. Sent once per process; the table is small, so it is scanned.
delete from {schema}.write_batch
where committed_at < now() - interval '1 day'
