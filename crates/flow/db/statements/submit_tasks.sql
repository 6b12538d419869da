/* submit_tasks */
-- Makes tasks: see functions/submit_tasks.sql.
select outcomes, backend from {schema}.submit_tasks($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)
