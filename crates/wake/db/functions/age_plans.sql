-- Discards the cached plans of this connection if a table of the schema is at least twice or at most half as large as
-- when they were made. PostgreSQL keeps a cached plan until its tables are analyzed, and a plan made for a table of one
-- page may read all of it once it has grown to a gigabyte: see
-- docs/decisions/0025-plans-are-discarded-when-tables-grow.md. Called by every write batch and claim; compares sizes at
-- most once in ten seconds per connection. Its state is in two settings of the session, so if the transaction is rolled
-- back, the next call compares again:
--   reveille.plans_good_until  when to compare next, in seconds of the Unix epoch; not set before the first call
--   reveille.plans_made_for    the sizes at the last comparison: '<schema oid> <table oid>:<magnitude> …', where the
--                              magnitude is how often the table's size has doubled, beginning with one page
create or replace function {schema}.age_plans() returns void
language plpgsql volatile
as $$
declare
    seconds    float8 := extract(epoch from clock_timestamp());
    good_until float8 := nullif(current_setting('reveille.plans_good_until', true), '');
    old_sizes  text   := current_setting('reveille.plans_made_for', true);
    new_sizes  text;
    schema_id  oid;
    table_ids  oid[];
begin
    if good_until between seconds and seconds + 10 then
        return;
    end if;
    perform set_config('reveille.plans_good_until', (seconds + 10)::text, false);
    if good_until is null then
        return;
    end if;

    schema_id := (
        select row_type.typnamespace
        from pg_type as row_type
        where row_type.oid = pg_typeof(null::{schema}.write_batch)
    );
    if split_part(old_sizes, ' ', 1) = schema_id::text then
        -- The same tables as before, so that the catalog is read only once.
        table_ids := array(
            select split_part(entry, ':', 1)::oid
            from unnest((string_to_array(old_sizes, ' '))[2:]) as entry
        );
    else
        table_ids := array(
            select relation.oid
            from pg_class as relation
            where relation.relnamespace = schema_id and relation.relkind = 'r'
        );
    end if;

    new_sizes := schema_id || ' ' || array_to_string(array(
        select table_id || ':' || trunc(ln(1 + coalesce(pg_relation_size(table_id), 0) / 8192::float8) / ln(2::float8))
        from unnest(table_ids) as table_id
        order by table_id
    ), ' ');
    if new_sizes is distinct from old_sizes then
        perform set_config('reveille.plans_made_for', new_sizes, false);
        execute 'discard plans';
    end if;
end
$$;
