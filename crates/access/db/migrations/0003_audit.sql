-- Who has changed what: a row for each change through a server that is no work of producers and workers, written in the
-- transaction of the change.
create table {schema}.audit (
    id bigint generated always as identity primary key,
    at timestamptz not null default now(),
    -- The name of the client, and how it has authenticated.
    actor text not null,
    credentials text not null,
    -- Such as queue.delete, and the name of the queue.
    action text not null,
    target text not null,
    -- Further facts; never a payload.
    detail jsonb,
    request_id text not null
);
