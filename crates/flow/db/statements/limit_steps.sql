/* limit_steps */
-- Limits how many steps may be under way at once: see functions/limit_steps.sql.
select {schema}.limit_steps($1, $2, $3)
