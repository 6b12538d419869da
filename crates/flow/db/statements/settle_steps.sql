/* settle_steps */
-- Ends attempts: see functions/settle_steps.sql.
select outcomes, backend from {schema}.settle_steps($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
