-- Sessions of the console. Only the hash of a session's secret is stored, as of a token's.
create table {schema}.access_session (
    id uuid primary key,
    -- SHA-256 of the secret in the cookie.
    hash bytea not null unique check (octet_length(hash) = 32),
    -- The token that opened it, and ends it. Null: another credential.
    token_id uuid references {schema}.access_token (id) on delete cascade,
    name text not null,
    -- Roles with their patterns of queues and namespaces.
    grants jsonb not null,
    -- Whether its user sees payloads.
    payloads boolean not null,
    created_at timestamptz not null default now(),
    -- The end, however often it is used.
    expires_at timestamptz not null,
    -- Written at most once a minute. It ends some hours after this, too.
    last_used_at timestamptz not null default now()
);
create index access_session_token on {schema}.access_session (token_id);
create index access_session_end on {schema}.access_session (expires_at);
