/* look_up */
-- Where instances stand. $1 instances text[]  $2 whether events are wanted boolean[]  $3 remembered execution bigint[]  $4 generation bigint[]
-- $5 last event bigint[]  $6 version of the custom status seen bigint[]; null: not wanted
-- Rows:  one: an answer per instance as JSON, and the backend.
-- Index: primary keys of instances, and of history backwards for its last row.
select array_agg(json_build_object(
           'execution', k.execution_id, 'generation', i.generation, 'last', head.last_event_id,
           'rows', case when w.events and (w.last is null or w.last <> coalesce(head.last_event_id, 0) or not k.same) then
               (select array_agg(h.events order by h.event_id) from {schema}.history h
                where h.instance_id = w.instance_id and h.execution_id = k.execution_id
                  and h.event_id > case when k.same then w.last else 0 end) end,
           'version', i.custom_status_version,
           'custom', case when i.custom_status_version > w.status_after then i.custom_status end)::text order by w.place),
       pg_backend_pid()
from unnest($1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) with ordinality
     as w (instance_id, events, execution_id, generation, last, status_after, place)
left join {schema}.instances i on i.instance_id = w.instance_id
cross join lateral (
    select e.execution_id, coalesce(e.execution_id = w.execution_id and i.generation = w.generation, false) as same
    from (select coalesce(i.current_execution_id,
                          case when i.instance_id is null then (select max(x.execution_id) from {schema}.executions x
                                                                where x.instance_id = w.instance_id) end) as execution_id) e) k
left join lateral (
    select h.last_event_id from {schema}.history h
    where w.events and h.instance_id = w.instance_id and h.execution_id = k.execution_id
    order by h.event_id desc limit 1) head on true
