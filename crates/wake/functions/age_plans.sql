-- Lets this connection make its plans anew, if they are older than ten seconds. They are kept until the tables are analyzed, and one that was made for a table of a page reads all of it where it
-- has grown to a gigabyte: see docs/decisions/0025-plans-age.md. Called by everything that is called often. If its transaction is rolled back, the next one does it again.
create or replace function {schema}.age_plans() returns void
language plpgsql volatile
as $$
declare
    seconds float8 := extract(epoch from clock_timestamp());
    good_until float8 := nullif(current_setting('reveille.plans_good_until', true), '');
begin
    if good_until between seconds and seconds + 10 then
        return;
    end if;
    perform set_config('reveille.plans_good_until', (seconds + 10)::text, false);
    if good_until is not null then
        execute 'discard plans';
    end if;
end
$$;
