-- Adds jobs, each due after its delay. Outcomes: their ids.
create or replace function {schema}.enqueue(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    queues text[], bodies text[], delays_ms bigint[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own
as $$
begin
    with added as (
        insert into {schema}.job (queue, body, due_at)
        select new_job.queue, new_job.body, now() + new_job.delay_ms * interval '1 ms'
        from unnest(queues, bodies, delays_ms) with ordinality as new_job (queue, body, delay_ms, position)
        order by new_job.position
        returning id
    )
    select array_agg(id::text order by id)
    into outcomes
    from added;
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
