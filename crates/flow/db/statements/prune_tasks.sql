/* prune_tasks */
-- Removes tasks that are not kept any longer, $1 at most, and what is left of removed ones, $2 rows of a table at most:
-- see functions/prune_tasks.sql.
select removed, more from {schema}.prune_tasks($1, $2)
