/* remove_tasks */
-- Removes tasks ($1) that have ended: see functions/remove_tasks.sql.
select {schema}.remove_tasks($1) as removed
