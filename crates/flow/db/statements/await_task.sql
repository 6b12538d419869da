/* await_task */
-- Waits for the end of a task ($1): marks it as watched ($2, in milliseconds) unless it has ended: see
-- functions/await_task.sql.
-- Rows: one.
select {schema}.await_task($1, $2)
