-- Adds jobs, each due after its delay. Outcomes: their ids.
create or replace function {schema}.enqueue(
    flight uuid, channels text[], payloads text[], patient boolean,
    queues text[], bodies text[], delays_ms bigint[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own
as $$
begin
    with added as (
        insert into {schema}.job (queue, body, due_at)
        select n.queue, n.body, now() + n.delay_ms * interval '1 ms'
        from unnest(queues, bodies, delays_ms) with ordinality as n (queue, body, delay_ms, place)
        order by n.place
        returning id)
    select array_agg(id::text order by id) into outcomes from added;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
