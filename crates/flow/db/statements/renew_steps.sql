/* renew_steps */
-- Extends leases: see functions/renew_steps.sql.
select outcomes, backend from {schema}.renew_steps($1, $2, $3, $4, $5, $6, $7, $8, $9)
