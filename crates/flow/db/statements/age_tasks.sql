/* age_tasks */
-- Looks at tasks ($1) that may have taken too long: see functions/age_tasks.sql.
select {schema}.age_tasks($1)
