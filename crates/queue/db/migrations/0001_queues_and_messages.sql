-- A queue and its options.
create table {schema}.queue (
    id                          integer     generated always as identity primary key,
    name                        text        not null,
    namespace                   text        not null default '',
    task                        text        not null default '',
    lease_seconds               integer     not null default 300,
    retry_limit                 integer     not null default 3,
    -- null: never configured, and failed messages are redelivered at once.
    retry_delay_ms              integer,
    -- 0: unlimited.
    max_size                    bigint      not null default 0,
    -- null: never configured, and messages do not expire.
    ttl_seconds                 integer,
    -- These two are stored and echoed only: every queue has dead letters.
    dead_letter_queue           boolean     not null default false,
    dlq_after_max_retries       boolean     not null default false,
    priority                    integer     not null default 0,
    delayed_processing_seconds  integer     not null default 0,
    window_buffer_seconds       integer     not null default 0,
    retention_seconds           integer     not null default 0,
    completed_retention_seconds integer     not null default 0,
    retention_enabled           boolean     not null default false,
    -- Age at which a message that all consumer groups have consumed is removed, unless retention_enabled; 0: never.
    consumed_retention_seconds  integer     not null default 86400,
    encryption_enabled          boolean     not null default false,
    max_wait_time_seconds       integer     not null default 0,
    -- Whether a lease that expires without an ack counts against retry_limit, as a failed ack does.
    charge_expired_leases       boolean     not null default true,
    -- Incremented when namespace, task or encryption_enabled changes, so that a push with a cached copy is detected.
    revision                    integer     not null default 0,
    created_at                  timestamptz not null default now()
);
-- By hash, because a name may be longer than an index entry. Two names with the same MD5 are made on purpose: the
-- second is rejected.
create unique index queue_name on {schema}.queue (md5(name));
create index queue_namespace on {schema}.queue (md5(namespace));
create index queue_task on {schema}.queue (md5(task));

-- A FIFO sequence of messages in a queue. A push locks the row and does not update it: a million messages leave no dead
-- row here.
create table {schema}.partition (
    id           bigint      generated always as identity primary key,
    queue_id     integer     not null references {schema}.queue on delete cascade,
    name         text        not null,
    -- Messages before this offset were removed. Only retention moves it.
    first_offset bigint      not null default 0,
    created_at   timestamptz not null default now()
);
create unique index partition_name on {schema}.partition (queue_id, md5(name));

-- Messages: those of one partition that were pushed in one write batch, in one row or, if they are large, a few. Rows
-- are appended and removed by range. Offsets of a partition have no gaps: the next one is next_offset of the last
-- segment. Element n of each array belongs to the message at offset first_offset + n - 1.
create table {schema}.segment (
    partition_id    bigint      not null,
    first_offset    bigint      not null,
    next_offset     bigint      not null,
    -- Taken from the clock under the partition's lock; never before that of an earlier segment.
    created_at      timestamptz not null,
    encrypted       boolean     not null,
    -- Hashes of the transaction ids. A process caches them and detects duplicates without an index entry per message.
    hashes          bigint[]    not null,
    -- null element: the message was deleted.
    ids             uuid[]      not null,
    transaction_ids text[]      not null,
    -- null: no message of the segment has one.
    trace_ids       text[],
    producers       text[],
    payloads        bytea[]     not null,
    primary key (partition_id, first_offset)
) with (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.1);
-- Not compressed: compression costs more time than the disk it saves at the usual sizes, and the size of an answer is
-- computed from the size of these columns.
alter table {schema}.segment alter column payloads set storage external;
alter table {schema}.segment alter column transaction_ids set storage external;
alter table {schema}.segment alter column trace_ids set storage external;
alter table {schema}.segment alter column producers set storage external;

-- A consumer group of a queue, and where it started to read.
create table {schema}.consumer (
    id         integer     generated always as identity primary key,
    queue_id   integer     not null references {schema}.queue on delete cascade,
    name       text        not null,
    mode       text        not null check (mode in ('all', 'new', 'timestamp')),
    since      timestamptz,
    created_at timestamptz not null default now()
);
create unique index consumer_name on {schema}.consumer (queue_id, md5(name));
create index consumer_by_name on {schema}.consumer (md5(name));

-- The position of a consumer group in a partition. A pop claims this row when due_at has passed: that is now while
-- there is something to read, the end of the lease while the partition is leased, and infinity when everything was read
-- (the next push sets it).
-- Each update increments `version`, the last column of the key. The current row is found by reading the key backwards,
-- so the dead versions that an old transaction keeps are not visited.
create table {schema}.cursor (
    partition_id    bigint      not null,
    -- No foreign key: it would search cursors by consumer without an index. `unsubscribe` deletes them.
    consumer_id     integer     not null,
    version         bigint      not null default 0,
    due_at          timestamptz not null,
    -- The first offset that is not consumed.
    position        bigint      not null,
    -- The lease, and the offset before which its messages end.
    lease_id        uuid,
    lease_end       bigint,
    -- The lease before: an ack that is sent again, because its answer was lost, is recognised by it.
    last_lease      uuid,
    -- Failed deliveries of the message at `position`.
    retries         integer     not null default 0,
    read_at         timestamptz,
    -- Messages before this offset were in a lease that expired. They are delivered one at a time, so that a message
    -- that crashes its consumer is distinguished from those that were delivered with it.
    suspect_until   bigint      not null default 0,
    -- The lease holds a single message in a single partition: if it expires, that message is the reason.
    lease_is_single boolean     not null default false,
    primary key (partition_id, consumer_id, version)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
create index cursor_due on {schema}.cursor (consumer_id, due_at) where due_at < 'infinity';
create index cursor_lease on {schema}.cursor (lease_id) where lease_id is not null;

-- A cursor that an ack has locked, with the options of its queue that decide what the ack does: see
-- functions/lock_acked_cursor.sql.
create type {schema}.acked_cursor as (
    -- null: the cursor is locked. Otherwise why there is none.
    problem                    text,
    partition_id               bigint,
    consumer_id                integer,
    version                    bigint,
    due_at                     timestamptz,
    position                   bigint,
    lease_id                   uuid,
    lease_end                  bigint,
    last_lease                 uuid,
    retries                    integer,
    suspect_until              bigint,
    consumer                   text,
    queue_id                   integer,
    retry_limit                integer,
    retry_delay_ms             integer,
    delayed_processing_seconds integer,
    window_buffer_seconds      integer
);

-- Partitions whose queue was deleted and whose messages and cursors still exist. They are deleted in small steps, so
-- that no caller waits for the end of a million messages.
create table {schema}.removed_partition (
    partition_id bigint primary key
);
