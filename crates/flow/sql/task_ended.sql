/* task_ended */
-- Whether a task ($1) has ended.
-- Rows:  one; none if there is no such task.
-- Index: primary key.
select t.state <> 'o' from {schema}.task t where t.id = $1
