/* prune_tasks */
-- Removes tasks whose retention is over, at most $1, and rows of removed tasks, at most $2 per table: see
-- functions/prune_tasks.sql.
select removed, more from {schema}.prune_tasks($1, $2)
