/* inspect_history */
-- A part of the history of an execution, in order. $1 instance text  $2 execution bigint; null: the current one
-- $3 after this event bigint  $4 at most so many turns bigint  $5 at most so many bytes bigint, but one turn at least
-- Rows:  the events of a turn as JSON text, with events that were asked for; the first turn may have earlier ones.
-- Index: primary key of history.
with chosen as materialized (
    select coalesce($2::bigint, instance.current_execution_id) as execution_id
    from {schema}.instances instance
    where instance.instance_id = $1
)
select turn.execution_id, turn.event_id, turn.last_event_id, turn.events
from (
    select history.execution_id, history.event_id, history.last_event_id, history.events,
           sum(octet_length(history.events)) over (order by history.event_id rows unbounded preceding)
               - octet_length(history.events) as bytes_before
    from chosen
    join {schema}.history on history.instance_id = $1 and history.execution_id = chosen.execution_id
    where history.event_id >= coalesce((
        select max(turn.event_id) from {schema}.history turn
        where turn.instance_id = $1 and turn.execution_id = chosen.execution_id and turn.event_id <= $3 + 1
    ), 0)
      and history.last_event_id > $3
    order by history.event_id
    limit $4
) as turn
where turn.bytes_before < $5
order by turn.event_id
