/* end_task */
-- Ends a task as a person wants it: see functions/end_task.sql.
select outcomes, backend from {schema}.end_task($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
