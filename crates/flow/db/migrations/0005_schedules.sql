-- A schedule submits tasks by itself: again and again by a cron expression, or once. The id and the tick make the
-- identity of the task, so that a tick makes one task across all servers.
create table {schema}.schedule (
    id               uuid        primary key,
    namespace_id     integer     not null references {schema}.namespace,
    name             text        not null,
    -- The template may be gone when a tick comes.
    template_name    text        not null,
    template_version text        not null,
    context          text        not null,
    priority         smallint    not null,
    tags             text[]      not null,
    cron             text,
    time_zone        text,
    at               timestamptz,
    -- What happens to a tick that is later than the grace period.
    missed           {schema}.missed_ticks not null,
    grace_seconds    integer     not null,
    paused           boolean     not null,
    -- Incremented by every change of a user. A server that read an older version advances nothing.
    version          bigint      not null default 1,
    -- The next tick; infinity if there is none, and while paused.
    next_at          timestamptz not null,
    -- The next tick; while a server runs it, when that server's lease ends.
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
