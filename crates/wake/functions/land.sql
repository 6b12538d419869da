-- Ends a flight inside its transaction: keeps its outcomes under its id (unless it needs none), rings, and answers the
-- backend, by which the process recognises its own notifications.
-- Plans: those of this connection are made anew after ten seconds. They are kept until the tables are analyzed, and one that was made for a table of a page reads all of it where it has grown to
--        a gigabyte: see docs/decisions/0025-plans-age.md.
create or replace function {schema}.land(flight uuid, outcomes text[], channels text[], payloads text[]) returns integer
language plpgsql volatile
as $$
declare
    seconds float8 := extract(epoch from clock_timestamp());
    good_until float8 := nullif(current_setting('reveille.plans_good_until', true), '');
begin
    if good_until is null or good_until < seconds then
        perform set_config('reveille.plans_good_until', (seconds + 10)::text, false);
        if good_until is not null then
            execute 'discard plans';
        end if;
    end if;
    if flight is not null then
        insert into {schema}.flight (id, outcomes) values (flight, outcomes);
    end if;
    if cardinality(channels) > 0 then
        perform {schema}.ring(channels, payloads);
    end if;
    return pg_backend_pid();
end
$$;
