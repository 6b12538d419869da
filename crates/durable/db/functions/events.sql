-- The events of an instance, one row each, for operators: `select * from events('order-42')`.
-- U+0000 is shown as U+FFFD: PostgreSQL cannot store it in text and therefore rejects JSON that contains it. The escape
-- \u0000 stands for it only after an even number of backslashes.
create or replace function {schema}.events(instance text)
returns table (execution_id bigint, event_id bigint, event_type text, event json)
language sql stable
as $$
    select history.execution_id, (element.event ->> 'event_id')::bigint, element.event ->> 'type', element.event
    from {schema}.history
    cross join json_array_elements(
        case
            when strpos(history.events, '\u0000') = 0 then history.events
            else regexp_replace(history.events, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g')
        end::json
    ) with ordinality as element (event, position)
    where history.instance_id = instance
    order by history.execution_id, history.event_id, element.position
$$;
