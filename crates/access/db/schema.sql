-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create table {schema}.access_revision (
    only_row boolean not null default true,
    revision bigint not null,
    constraint access_revision_only_row_check CHECK (only_row),
    constraint access_revision_pkey PRIMARY KEY (only_row)
);

create table {schema}.access_session (
    id uuid not null,
    hash bytea not null,
    token_id uuid,
    name text not null,
    grants jsonb not null,
    payloads boolean not null,
    created_at timestamp with time zone not null default now(),
    expires_at timestamp with time zone not null,
    last_used_at timestamp with time zone not null default now(),
    constraint access_session_hash_check CHECK ((octet_length(hash) = 32)),
    constraint access_session_hash_key UNIQUE (hash),
    constraint access_session_pkey PRIMARY KEY (id),
    constraint access_session_token_id_fkey FOREIGN KEY (token_id) REFERENCES {schema}.access_token(id) ON DELETE CASCADE
);
CREATE INDEX access_session_end ON {schema}.access_session USING btree (expires_at);
CREATE INDEX access_session_token ON {schema}.access_session USING btree (token_id);

create table {schema}.access_token (
    id uuid not null,
    hash bytea not null,
    name text not null,
    grants jsonb not null,
    payloads boolean not null,
    created_at timestamp with time zone not null default now(),
    created_by text not null,
    expires_at timestamp with time zone,
    last_used_at timestamp with time zone,
    constraint access_token_hash_check CHECK ((octet_length(hash) = 32)),
    constraint access_token_hash_key UNIQUE (hash),
    constraint access_token_name_key UNIQUE (name),
    constraint access_token_pkey PRIMARY KEY (id)
);

create table {schema}.audit (
    id bigint not null generated always as identity,
    at timestamp with time zone not null default now(),
    actor text not null,
    credentials text not null,
    action text not null,
    target text not null,
    detail jsonb,
    request_id text not null,
    constraint audit_pkey PRIMARY KEY (id)
);

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
