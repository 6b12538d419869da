/* load_history */
-- The events of executions that are not cached. $1 instances text[]  $2 executions bigint[]
-- $3 after these events bigint[]
-- Rows:  position of the instance from zero, the events of a turn as JSON text; in order.
-- Index: primary key of history, one range per execution.
select (requested.position - 1)::int, turn.events
from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality
     as requested (instance_id, execution_id, after_event, position)
cross join lateral (
    select history.event_id, history.events from {schema}.history
    where history.instance_id = requested.instance_id
      and history.execution_id = requested.execution_id
      and history.event_id > requested.after_event
    offset 0
) as turn
order by requested.position, turn.event_id
