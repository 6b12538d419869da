-- Ends a flight inside its transaction: keeps its outcomes under its id (unless it needs none), rings, and answers the
-- backend, by which the process recognises its own notifications.
create or replace function {schema}.land(flight uuid, outcomes text[], channels text[], payloads text[]) returns integer
language plpgsql volatile
as $$
begin
    perform {schema}.age_plans();
    if flight is not null then
        insert into {schema}.flight (id, outcomes) values (flight, outcomes);
    end if;
    if cardinality(channels) > 0 then
        perform {schema}.ring(channels, payloads);
    end if;
    return pg_backend_pid();
end
$$;
