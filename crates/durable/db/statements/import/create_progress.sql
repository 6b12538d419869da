-- The progress of imports, created by the first one. It is written in the same transaction as the copied rows.
create table if not exists {schema}.imports (
    source         text        primary key,
    -- What is being copied: instances, sessions, activities, messages; then done.
    stage          text        not null,
    -- The last name or id that was copied in this stage; null: none yet.
    copied_through text,
    instances      bigint      not null default 0,
    executions     bigint      not null default 0,
    events         bigint      not null default 0,
    messages       bigint      not null default 0,
    activities     bigint      not null default 0,
    sessions       bigint      not null default 0,
    keys           bigint      not null default 0,
    began_at       timestamptz not null default now(),
    changed_at     timestamptz not null default now()
)
