-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create type {schema}.colour as enum ('red', 'blue');

create type {schema}.point as (
    x double precision,
    "Label" character varying(20)
);

create sequence {schema}.ticket as integer increment 1 minvalue 1 maxvalue 2147483647 start 1 cache 1 cycle;

create unlogged table {schema}.draft (
    text text
);

create table {schema}.log (
    at timestamp with time zone not null,
    note text,
    constraint log_pkey PRIMARY KEY (at)
) partition by RANGE (at);
CREATE INDEX log_note ON ONLY {schema}.log USING btree (note);

create table {schema}.log_2030 partition of {schema}.log (
    at timestamp with time zone not null,
    note text
) FOR VALUES FROM ('2030-01-01 00:00:00+00') TO ('2031-01-01 00:00:00+00');

create table {schema}.note (
    id uuid not null,
    owner bigint,
    number integer not null default nextval('{schema}.ticket'::regclass),
    colour {schema}.colour not null default 'red'::{schema}.colour,
    tags text[] not null default '{}'::text[],
    keep interval not null default '1 day 02:00:00'::interval,
    body bytea storage external not null,
    "Odd" numeric(10,2),
    constraint note_owner_fkey FOREIGN KEY (owner) REFERENCES {schema}.owner(id) ON DELETE CASCADE,
    constraint note_pkey PRIMARY KEY (id),
    constraint note_tags_check CHECK ((cardinality(tags) < 5))
) with (autovacuum_vacuum_threshold=5000, fillfactor=70, toast.autovacuum_enabled=off);
CREATE INDEX note_due ON {schema}.note USING btree (owner, number DESC) INCLUDE (colour) WHERE (colour = 'red'::{schema}.colour);
CREATE TRIGGER note_told AFTER INSERT ON {schema}.note FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'mine'::text)) EXECUTE FUNCTION {schema}.tell('told'); -- disabled

create table {schema}.owner (
    id bigint not null generated always as identity,
    name text collate "C" not null,
    shout text generated always as (upper(name)) stored,
    constraint owner_name_key UNIQUE (name),
    constraint owner_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX owner_pkey ON {schema}.owner USING btree (id) WITH (fillfactor='80');

CREATE OR REPLACE PROCEDURE {schema}.find()
 LANGUAGE plpgsql
 SECURITY DEFINER;

CREATE OR REPLACE FUNCTION {schema}.find(wanted {schema}.colour, most integer DEFAULT 10)
 RETURNS SETOF {schema}.note
 LANGUAGE sql
 STABLE STRICT ROWS 10
 SET search_path TO 'mine';

CREATE OR REPLACE FUNCTION {schema}.tell()
 RETURNS trigger
 LANGUAGE plpgsql;
