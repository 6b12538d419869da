-- An orchestration instance and the state of its current execution. Written when an execution begins or ends and when
-- its custom status changes, not at every turn. Created by the first ack that names it, never by an enqueue.
create sequence {schema}.generation;
create table {schema}.instances (
    instance_id           text        primary key,
    orchestration_name    text        not null,
    orchestration_version text,
    parent_instance_id    text,
    current_execution_id  bigint      not null,
    -- As duroxide names it: Running, Completed, Failed, ContinuedAsNew.
    status                text        not null default 'Running',
    -- The duroxide version that began the current execution, as one number; null: any version may continue it.
    pinned_version        bigint,
    -- Changes when rows of the history are updated or deleted. A cached history is valid only under its generation.
    -- Taken from a sequence, so that an instance that is deleted and created again has a different one.
    generation            bigint      not null default nextval('{schema}.generation'),
    custom_status_version bigint      not null default 0,
    created_at            timestamptz not null default now(),
    updated_at            timestamptz not null default now(),
    custom_status         text
) with (fillfactor = 70);
create index instances_parent on {schema}.instances (parent_instance_id) where parent_instance_id is not null;

-- One run of an instance; each continue-as-new begins another.
create table {schema}.executions (
    instance_id  text        not null,
    execution_id bigint      not null,
    status       text        not null default 'Running',
    -- The number of its events; null until it ends.
    event_count  bigint,
    started_at   timestamptz not null default now(),
    completed_at timestamptz,
    output       text,
    primary key (instance_id, execution_id)
) with (fillfactor = 80);
-- For retention: the executions that ended first. Continuing as new does not end an instance.
create index executions_ended on {schema}.executions (completed_at)
    where completed_at is not null and status <> 'ContinuedAsNew';

-- The events of executions, append-only: one row per turn, its events as the text of a JSON array. One row per event
-- would cost three times the WAL. Text, because jsonb rejects \u0000 and reorders keys. `events(instance)` returns one
-- row per event.
create table {schema}.history (
    instance_id   text    not null,
    execution_id  bigint  not null,
    -- The first event of the turn.
    event_id      bigint  not null,
    last_event_id bigint  not null,
    event_count   integer not null,
    events        text    not null,
    primary key (instance_id, execution_id, event_id)
) with (toast_tuple_target = 256, autovacuum_vacuum_insert_scale_factor = 0.05);
-- Compressed in place when it pays off: the events of a turn repeat their keys.
alter table {schema}.history alter column events set storage main;

-- Keys and values of an instance, as its ended executions left them.
create table {schema}.kv_store (
    instance_id        text   not null,
    key                text   not null,
    value              text   not null,
    last_updated_at_ms bigint not null,
    primary key (instance_id, key)
);
-- Changes made by the current execution; a null value: the key is removed.
create table {schema}.kv_delta (
    instance_id        text   not null,
    key                text   not null,
    value              text,
    last_updated_at_ms bigint not null,
    primary key (instance_id, key)
);
