/* publish_steps */
-- Leases steps to send them to a queue: see functions/publish_steps.sql.
select * from {schema}.publish_steps($1, $2, $3, $4, $5)
