-- Messages to instances. A row is usually inserted once and deleted once; claiming its instance does not touch it. It
-- is updated only when an attempt ended without an ack, when it is delayed, and when it waits for a start.
create table {schema}.orchestrator_queue (
    id            bigint      generated always as identity,
    instance_id   text        not null,
    -- When the message is due: in the future for a timer, `infinity` while its instance has not been started.
    visible_at    timestamptz not null default now(),
    -- Attempts that ended without an ack. An attempt that is running is in `instance_locks`.
    attempt_count integer     not null default 0,
    -- start: begins an execution; queue_message: meaningless to an instance that does not exist; message: any other.
    kind          text        not null generated always as (
        case
            when left(work_item, 40) ~ '^\s*{\s*"(StartOrchestration|ContinueAsNew)"' then 'start'
            when left(work_item, 40) ~ '^\s*{\s*"QueueMessage"' then 'queue_message'
            else 'message'
        end) stored,
    work_item     text        not null,
    primary key (instance_id, visible_at, id)
) with (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
-- Only the due time. With the id as a second column, the planner would choose this index to delete rows by id if the
-- table was empty when it was analyzed.
create index orchestrator_queue_due on {schema}.orchestrator_queue (visible_at);

-- Instances with a running turn: the lease and the messages that it covers.
create table {schema}.instance_locks (
    instance_id  text        primary key,
    lock_token   uuid        not null,
    locked_until timestamptz not null,
    message_ids  bigint[]    not null
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, vacuum_truncate = off
);

-- Activities to execute. The columns of the lease have no index and come before the payload: claims and renewals are
-- HOT updates that leave the payload alone.
create table {schema}.worker_queue (
    id            bigint      generated always as identity,
    visible_at    timestamptz not null default now(),
    locked_until  timestamptz,
    lock_token    uuid,
    execution_id  bigint      not null,
    activity_id   bigint      not null,
    attempt_count integer     not null default 0,
    -- Activities with the same tag wait in one queue: '' for those without a tag, '#' and the tag for those with one.
    tag_queue     text        not null default '',
    instance_id   text        not null,
    session_id    text,
    work_item     text        not null,
    primary key (instance_id, id)
) with (
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off
);
create index worker_queue_due on {schema}.worker_queue (tag_queue, visible_at);
create index worker_queue_session on {schema}.worker_queue (session_id) where session_id is not null;

-- Which worker owns which session, and until when.
create table {schema}.sessions (
    session_id       text        primary key,
    worker_id        text        not null,
    locked_until     timestamptz not null,
    last_activity_at timestamptz not null
) with (fillfactor = 70);
create index sessions_worker on {schema}.sessions (worker_id);
