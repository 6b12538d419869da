/* read_with_execution */
-- The events of an execution. $1 instance text  $2 execution bigint; null: the latest
-- Rows:  the events of a turn as JSON text, and the execution; in order.
-- Index: primary key of history.
select history.events, history.execution_id
from {schema}.history
where history.instance_id = $1
  and history.execution_id = coalesce(
      $2::bigint,
      (select max(execution.execution_id) from {schema}.executions execution where execution.instance_id = $1),
      1
  )
order by history.event_id
