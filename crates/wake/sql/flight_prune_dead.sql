/* flight_prune_dead */
-- Removes what processes that died have left. Sent once per process; the table is small, so it is read whole.
delete from {schema}.flight where landed_at < now() - interval '1 day'
