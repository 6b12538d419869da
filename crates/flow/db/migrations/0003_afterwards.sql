-- Tasks that somebody has to look into: why, and how they stood then.
create table {schema}.investigation (
    id          bigint      generated always as identity primary key,
    task_id     uuid        not null,
    -- The step that it is about, if it is about one.
    ordinal     integer,
    reason      text        not null,
    -- JSON.
    snapshot    text        not null,
    created_at  timestamptz not null default now(),
    -- What became of it; null: nobody has dealt with it.
    resolution  text,
    resolved_by text,
    notes       text,
    resolved_at timestamptz
);
-- A task is looked into once at a time.
create unique index investigation_open on {schema}.investigation (task_id) where resolved_at is null;
create index investigation_task on {schema}.investigation (task_id);

-- What steps tell when they end, written by the transaction that ends them. They are read in the order of their transactions, and only those that no transaction under way can come before: a
-- number alone would be given out in another order than it can be seen in.
create table {schema}.domain_event (
    transaction_id xid8        not null default pg_current_xact_id(),
    id             bigint      generated always as identity,
    task_id        uuid        not null,
    ordinal        integer     not null,
    name           text        not null,
    succeeded      boolean     not null,
    -- The result, or the error.
    payload        text,
    created_at     timestamptz not null default now(),
    primary key (transaction_id, id)
);
