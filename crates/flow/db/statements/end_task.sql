/* end_task */
-- Ends a task as an operator asks: see functions/end_task.sql. $1 batch  $2 channels  $3 payloads  $4 patient  $5 task
-- $6 state  $7 allowed states  $8 operator  $9 reason  $10 preview
select outcomes, backend from {schema}.end_task($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
