/* limit_steps */
-- Limits how many steps may be in progress at once: see functions/limit_steps.sql.
select {schema}.limit_steps($1, $2, $3)
