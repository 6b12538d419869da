/* publish_steps */
-- Takes steps to be sent through another queue: see functions/publish_steps.sql.
select * from {schema}.publish_steps($1, $2, $3, $4, $5)
