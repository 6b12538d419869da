-- The events of an instance, a row each, for people: `select * from events('order-42')`.
create or replace function {schema}.events(instance text)
returns table (execution_id bigint, event_id bigint, event_type text, event json)
language sql stable
as $$
    select h.execution_id, (e.event ->> 'event_id')::bigint, e.event ->> 'type', e.event
    from {schema}.history h cross join json_array_elements(h.events::json) with ordinality as e (event, place)
    where h.instance_id = instance order by h.execution_id, h.event_id, e.place
$$;
