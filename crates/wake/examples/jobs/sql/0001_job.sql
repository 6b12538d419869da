-- One row per job with the time it is next due. Null: never again, because it has failed for good. A finished job is
-- deleted.
create table {schema}.job (
    id      bigint generated always as identity primary key,
    queue   text        not null,
    due_at  timestamptz default now(),
    attempt integer     not null default 0,
    token   uuid,
    body    text        not null
);
create index job_due on {schema}.job (queue, due_at);

-- Rows inserted or rescheduled by psql or another program notify as well. The functions of this example notify by
-- themselves, and are marked by their search path.
create trigger trg_job_notify after insert or update of due_at on {schema}.job
    for each statement when (current_setting('search_path') <> 'reveille_own')
    execute function {schema}.notify_by_trigger({channel});
