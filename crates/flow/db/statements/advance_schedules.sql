/* advance_schedules */
-- Advances schedules: see functions/advance_schedules.sql.
select outcomes, backend from {schema}.advance_schedules($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
