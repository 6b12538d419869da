-- How far imports have come, made by the first: what was carried over and how far that is, in one transaction with the rows themselves.
create table if not exists {schema}.imports (
    source     text        primary key,
    -- What is being carried over, and after which name or number of it to go on; null: from the beginning.
    stage      text        not null,
    through    text,
    instances  bigint      not null default 0,
    executions bigint      not null default 0,
    events     bigint      not null default 0,
    messages   bigint      not null default 0,
    activities bigint      not null default 0,
    sessions   bigint      not null default 0,
    keys       bigint      not null default 0,
    began_at   timestamptz not null default now(),
    changed_at timestamptz not null default now()
)
