/* claim_steps */
-- Claims steps: see functions/claim_steps.sql.
select * from {schema}.claim_steps($1, $2, $3, $4, $5, $6, $7, $8, $9, in_write => false)
