/* renew_steps */
-- Makes leases last: see functions/renew_steps.sql.
select {schema}.renew_steps($1, $2, $3, $4, $5)
