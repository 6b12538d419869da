-- Writes rows. Every system of the notifying workload calls it, so that their writes are the same. Outcomes: `ok`.
create or replace function {schema}.write(
    batch uuid, channels text[], payloads text[], patient boolean, bodies text[]
) returns table (outcomes text[], backend integer)
language plpgsql
as $$
begin
    insert into {schema}.written (body) select unnest(bodies);
    outcomes := array_fill('ok'::text, array[cardinality(bodies)]);
    backend := {schema}.finish_batch(batch, outcomes, channels, payloads);
    return next;
end
$$;
