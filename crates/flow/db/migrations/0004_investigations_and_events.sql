-- Tasks that an operator has to look at: why, and a snapshot from then.
create table {schema}.investigation (
    id          bigint      generated always as identity primary key,
    task_id     uuid        not null,
    -- The step that it is about; null: the whole task.
    ordinal     integer,
    reason      text        not null,
    -- JSON.
    snapshot    text        not null,
    created_at  timestamptz not null default now(),
    resolution  text,
    resolved_by text,
    notes       text,
    -- Null: open.
    resolved_at timestamptz
);
-- A task has at most one open investigation.
create unique index investigation_open on {schema}.investigation (task_id) where resolved_at is null;
create index investigation_newest_open on {schema}.investigation (id) where resolved_at is null;
create index investigation_task on {schema}.investigation (task_id);

-- Domain events, written by the transaction that ends the step. They are read in the order of their transactions, up to
-- the oldest transaction that is still running: identity values alone become visible in another order.
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
) with (autovacuum_vacuum_scale_factor = 0.05);
create index domain_event_task on {schema}.domain_event (task_id);
