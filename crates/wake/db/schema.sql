-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

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

create table {schema}.write_batch (
    id uuid not null,
    outcomes text[] not null,
    committed_at timestamp with time zone not null default now(),
    constraint write_batch_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.finish_batch(batch_id uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.notify(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.notify_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql;
