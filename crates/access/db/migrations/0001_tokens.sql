-- Tokens of clients. Only the hash of a token is stored: a copy of this table opens nothing.
create table {schema}.access_token (
    id uuid primary key,
    -- SHA-256 of the token.
    hash bytea not null unique check (octet_length(hash) = 32),
    name text not null unique,
    -- Roles with their patterns of queues and namespaces.
    grants jsonb not null,
    -- Whether its client sees payloads.
    payloads boolean not null,
    created_at timestamptz not null default now(),
    created_by text not null,
    -- Null: never.
    expires_at timestamptz,
    -- Written at most once a minute.
    last_used_at timestamptz
);

-- A number that changes with each revocation, for the servers that keep tokens in memory.
create table {schema}.access_revision (
    only_row boolean primary key default true check (only_row),
    revision bigint not null
);
insert into {schema}.access_revision (revision) values (1);
