/* claim_delivered */
-- Claims the steps of deliveries: see functions/claim_delivered.sql.
select * from {schema}.claim_delivered($1, $2, $3, $4, $5, $6)
