/* read_with_execution */
-- The events of an execution. $1 instance text  $2 execution bigint; null: the latest
-- Rows:  the JSON of a turn's events, and the execution, in order.
-- Index: primary key of history.
select h.events, h.execution_id from {schema}.history h
where h.instance_id = $1
  and h.execution_id = coalesce($2::bigint, (select max(e.execution_id) from {schema}.executions e where e.instance_id = $1), 1)
order by h.event_id
