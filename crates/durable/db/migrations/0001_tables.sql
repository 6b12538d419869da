-- An orchestration instance: what it is, and where its current execution stands. Written when an execution begins or ends and when
-- its custom status changes, not at every turn. Made by the first ack that names it, never by an enqueue.
create sequence {schema}.generation;
create table {schema}.instances (
    instance_id           text        primary key,
    orchestration_name    text        not null,
    orchestration_version text,
    parent_instance_id    text,
    current_execution_id  bigint      not null,
    status                text        not null default 'Running',
    -- The duroxide version that began the current execution, as one number; null: any version may continue it.
    pinned_version        bigint,
    -- Changes when rows of the history are changed or removed: whoever remembers the history remembers it under this number. From a
    -- sequence, so that an instance that is deleted and made again has another.
    generation            bigint      not null default nextval('{schema}.generation'),
    custom_status_version bigint      not null default 0,
    created_at            timestamptz not null default now(),
    updated_at            timestamptz not null default now(),
    custom_status         text
) with (fillfactor = 70);
create index instances_parent on {schema}.instances (parent_instance_id) where parent_instance_id is not null;

create table {schema}.executions (
    instance_id  text        not null,
    execution_id bigint      not null,
    status       text        not null default 'Running',
    -- How many events it has; null until it ends.
    event_count  bigint,
    started_at   timestamptz not null default now(),
    completed_at timestamptz,
    output       text,
    primary key (instance_id, execution_id)
) with (fillfactor = 80);

-- What happened, only ever appended: a row per turn, with its events as the text of a JSON array. A row per event costs three times the
-- WAL; and text, because jsonb refuses \u0000 and reorders keys. `events(instance)` answers a row per event.
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
-- Compressed in place as soon as it is worth it: the events of a turn repeat their keys.
alter table {schema}.history alter column events set storage main;

-- Messages to instances. A row is inserted once and deleted once; claiming an instance leaves it alone. It is rewritten only off the usual way: when an
-- attempt ended without an ack, when it is put off, and when it waits for a start. `visible_at` is when it is due: a timer's in the future,
-- `infinity` for a message to an instance nobody has started yet.
create table {schema}.orchestrator_queue (
    id            bigint      generated always as identity,
    instance_id   text        not null,
    visible_at    timestamptz not null default now(),
    -- Attempts that ended without an ack. One that is under way is in `instance_locks`.
    attempt_count integer     not null default 0,
    -- s: begins an execution; q: means nothing to an instance that does not exist; m: any other.
    kind          "char"      not null generated always as (
                      case when left(work_item, 40) ~ '^\s*{\s*"(StartOrchestration|ContinueAsNew)"' then 's'::"char"
                           when left(work_item, 40) ~ '^\s*{\s*"QueueMessage"' then 'q'::"char"
                           else 'm'::"char" end) stored,
    work_item     text        not null,
    primary key (instance_id, visible_at, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
-- Nothing but the due time: with the id in it, a table that was empty when it was analysed has its rows deleted by a scan of this index.
create index orchestrator_queue_due on {schema}.orchestrator_queue (visible_at);

-- Instances that are being worked on: the lease, and which messages it covers.
create table {schema}.instance_locks (
    instance_id  text        primary key,
    lock_token   uuid        not null,
    locked_until timestamptz not null,
    message_ids  bigint[]    not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off);

-- Activities to execute. The lease is in columns without an index, before the payload: claiming and renewing rewrite a few bytes in place.
create table {schema}.worker_queue (
    id            bigint      generated always as identity,
    visible_at    timestamptz not null default now(),
    locked_until  timestamptz,
    lock_token    uuid,
    execution_id  bigint      not null,
    activity_id   bigint      not null,
    attempt_count integer     not null default 0,
    -- '' for an activity without a tag, '#' and the tag for one with.
    lane          text        not null default '',
    instance_id   text        not null,
    session_id    text,
    work_item     text        not null,
    primary key (instance_id, id)
) with (fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
create index worker_queue_due on {schema}.worker_queue (lane, visible_at);
create index worker_queue_session on {schema}.worker_queue (session_id) where session_id is not null;

-- Which worker has which session, and until when.
create table {schema}.sessions (
    session_id       text        primary key,
    worker_id        text        not null,
    locked_until     timestamptz not null,
    last_activity_at timestamptz not null
) with (fillfactor = 70);
create index sessions_worker on {schema}.sessions (worker_id);

-- Keys and values of an instance: of executions that have ended, and what the current one has changed (null: removed).
create table {schema}.kv_store (
    instance_id        text   not null,
    key                text   not null,
    value              text   not null,
    last_updated_at_ms bigint not null,
    primary key (instance_id, key)
);
create table {schema}.kv_delta (
    instance_id        text   not null,
    key                text   not null,
    value              text,
    last_updated_at_ms bigint not null,
    primary key (instance_id, key)
);
