-- Lets this connection make its plans anew if a table is twice as large as when they were made, or half; it looks every ten seconds. They are kept until the tables are analyzed, and one that was made
-- for a table of a page reads all of it where it has grown to a gigabyte: see docs/decisions/0025-plans-age.md. Called by everything that is called often. If its transaction is rolled back, the next one
-- does it again.
create or replace function {schema}.age_plans() returns void
language plpgsql volatile
as $$
declare
    seconds    float8 := extract(epoch from clock_timestamp());
    good_until float8 := nullif(current_setting('reveille.plans_good_until', true), '');
    -- The schema, and of each of its tables how often its size doubles.
    made_for   text := current_setting('reveille.plans_made_for', true);
    own        text;
    tables     oid[];
begin
    if good_until between seconds and seconds + 10 then
        return;
    end if;
    perform set_config('reveille.plans_good_until', (seconds + 10)::text, false);
    if good_until is null then
        return;
    end if;
    own := (select t.typnamespace::text from pg_type t where t.oid = pg_typeof(null::{schema}.write_batch));
    if split_part(made_for, ' ', 1) = own then
        tables := array(select split_part(k.known, ':', 1)::oid from unnest((string_to_array(made_for, ' '))[2:]) as k (known));
    else
        tables := array(select c.oid from pg_class c where c.relnamespace = own::oid and c.relkind = 'r');
    end if;
    own := own || ' ' || array_to_string(array(
        select o.id || ':' || floor(ln(1 + coalesce(pg_relation_size(o.id), 0)::float8 / 8192) / ln(2::float8)) from unnest(tables) as o (id) order by o.id), ' ');
    if own is distinct from made_for then
        perform set_config('reveille.plans_made_for', own, false);
        execute 'discard plans';
    end if;
end
$$;
