-- When tasks are submitted by themselves. What a schedule does not share with others of its name is `id`: a tick of a schedule makes one task, whose identity is made of both.
create table {schema}.schedule (
    id               uuid        primary key,
    namespace_id     integer     not null references {schema}.namespace,
    name             text        not null,
    -- What is submitted. The template may be gone when its time comes.
    template_name    text        not null,
    template_version text        not null,
    context          text        not null,
    priority         smallint    not null,
    tags             text[]      not null,
    -- Again and again, by a clock in a zone; or once.
    cron             text,
    time_zone        text,
    at               timestamptz,
    -- What becomes of ticks that are missed: s: nothing, l: the latest runs, a: all run. And how late that is.
    missed           "char"      not null,
    grace_seconds    integer     not null,
    paused           boolean     not null,
    -- A later one with every change by a person: whoever has looked before advances nothing.
    version          bigint      not null default 1,
    -- The next tick; infinity if there is none, and while it is paused.
    next_at          timestamptz not null,
    -- When to look: at the next tick; while somebody is at it, when that has taken too long.
    due_at           timestamptz not null,
    -- The last tick that ran, the last task that was made, and why the last tick made none.
    last_at          timestamptz,
    last_task        uuid,
    last_error       text,
    created_at       timestamptz not null default now(),
    updated_at       timestamptz not null default now(),
    unique (namespace_id, name),
    check ((cron is null) = (time_zone is null) and (cron is null) <> (at is null))
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, vacuum_truncate = off);
create index schedule_due on {schema}.schedule (due_at) where due_at < 'infinity';
