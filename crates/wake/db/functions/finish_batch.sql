-- Ends a write batch inside its transaction: records its outcomes under its id (null: they need no record), and
-- notifies. Returns the backend, by which the process recognises its own notifications.
create or replace function {schema}.finish_batch(batch_id uuid, outcomes text[], channels text[], payloads text[])
returns integer
language plpgsql volatile
as $$
begin
    perform {schema}.age_plans();
    if batch_id is not null then
        insert into {schema}.write_batch (id, outcomes)
        values (batch_id, outcomes);
    end if;
    if cardinality(channels) > 0 then
        perform {schema}.notify(channels, payloads);
    end if;
    return pg_backend_pid();
end
$$;
