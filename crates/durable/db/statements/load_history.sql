/* load_history */
-- The events of executions that are not remembered. $1 instances text[]  $2 executions bigint[]  $3 after which event bigint[]
-- Rows:  place from zero, the events of a turn as JSON text; in order.
-- Index: primary key of history, one range per execution.
select (k.place - 1)::int, h.events
from unnest($1::text[], $2::bigint[], $3::bigint[]) with ordinality as k (instance_id, execution_id, after, place)
cross join lateral (select h.event_id, h.events from {schema}.history h
                    where h.instance_id = k.instance_id and h.execution_id = k.execution_id and h.event_id > k.after offset 0) h
order by k.place, h.event_id
