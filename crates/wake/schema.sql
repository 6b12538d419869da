-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create table {schema}.flight (
    id uuid not null,
    outcomes text[] not null,
    landed_at timestamp with time zone not null default now(),
    constraint flight_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

create table {schema}.migration (
    component text not null,
    number integer,
    name text not null,
    hash text not null,
    applied_at timestamp with time zone not null default now(),
    constraint migration_number_check CHECK ((number > 0))
);
CREATE UNIQUE INDEX migration_function ON {schema}.migration USING btree (component, name) WHERE (number IS NULL);
CREATE UNIQUE INDEX migration_number ON {schema}.migration USING btree (component, number) WHERE (number IS NOT NULL);

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
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
    own := (select t.typnamespace::text from pg_type t where t.oid = pg_typeof(null::{schema}.flight));
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
$function$;

CREATE OR REPLACE FUNCTION {schema}.land(flight uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
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
$function$;

CREATE OR REPLACE FUNCTION {schema}.ring(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform pg_notify(channel,
                     case when payload ~ '^\+[0-9]{1,15}$'
                          then ((extract(epoch from now()) * 1000)::bigint + substr(payload, 2)::bigint)::text
                          else payload end)
    from unnest(channels, payloads) as rung (channel, payload);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.ring_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    perform pg_notify(tg_argv[0], coalesce(tg_argv[1], ''));
    return null;
end
$function$;
