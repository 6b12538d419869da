-- The events of an instance, a row each, for people: `select * from events('order-42')`.
-- U+0000 is shown as U+FFFD: PostgreSQL cannot hold it in text, and so takes no JSON apart that has it. Its escape is one only behind an even number
-- of backslashes.
create or replace function {schema}.events(instance text)
returns table (execution_id bigint, event_id bigint, event_type text, event json)
language sql stable
as $$
    select h.execution_id, (e.event ->> 'event_id')::bigint, e.event ->> 'type', e.event
    from {schema}.history h cross join json_array_elements(
        case when strpos(h.events, '\u0000') = 0 then h.events
             else regexp_replace(h.events, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') end::json) with ordinality as e (event, place)
    where h.instance_id = instance order by h.execution_id, h.event_id, e.place
$$;
