/* await_task */
-- How a task ($1) stands for who waits for its end, and a mark ($2, in milliseconds) if it has not come: see
-- functions/await_task.sql.
-- Rows: one.
select {schema}.await_task($1, $2)
