-- A queue and its options. An option that was never given and acts only when it was is null.
create table {schema}.queue (
    id                          integer     generated always as identity primary key,
    name                        text        not null,
    namespace                   text        not null default '',
    task                        text        not null default '',
    lease_seconds               integer     not null default 300,
    retry_limit                 integer     not null default 3,
    retry_delay_ms              integer,
    max_size                    bigint      not null default 0,
    ttl_seconds                 integer,
    dead_letter_queue           boolean     not null default false,
    dlq_after_max_retries       boolean     not null default false,
    priority                    integer     not null default 0,
    delayed_processing_seconds  integer     not null default 0,
    window_buffer_seconds       integer     not null default 0,
    retention_seconds           integer     not null default 0,
    completed_retention_seconds integer     not null default 0,
    retention_enabled           boolean     not null default false,
    encryption_enabled          boolean     not null default false,
    max_wait_time_seconds       integer     not null default 0,
    -- Another one whenever its namespace, its task or its encryption changes: who remembers those notices it.
    revision                    integer     not null default 0,
    created_at                  timestamptz not null default now()
);
-- A name may be longer than an index entry; two that differ never share their hash but by intent, and then the second is refused.
create unique index queue_name on {schema}.queue (md5(name));
create index queue_namespace on {schema}.queue (md5(namespace));
create index queue_task on {schema}.queue (md5(task));

-- A strict FIFO lane of a queue. Its row is locked by whoever appends to it, and never updated for that: so a million messages leave no dead row.
create table {schema}.partition (
    id           bigint      generated always as identity primary key,
    queue_id     integer     not null references {schema}.queue on delete cascade,
    name         text        not null,
    -- What lies before it was removed by retention. Moved by retention only.
    first_offset bigint      not null default 0,
    created_at   timestamptz not null default now()
);
create unique index partition_name on {schema}.partition (queue_id, md5(name));

-- The messages: what one flight brought for one partition, in one row or, if it is large, a few. Only ever appended, and removed by range.
-- Offsets of a partition have no gaps; the next is `next_offset` of its last segment. Element n of the arrays is the message `first_offset + n - 1`.
create table {schema}.segment (
    partition_id    bigint      not null,
    first_offset    bigint      not null,
    next_offset     bigint      not null,
    -- By the server's clock, under the partition's lock; never before that of an earlier segment.
    created_at      timestamptz not null,
    encrypted       boolean     not null,
    -- Of the transaction ids: whoever remembers them recognises a duplicate without an index entry per message.
    hashes          bigint[]    not null,
    -- null: the message was deleted.
    ids             uuid[]      not null,
    transaction_ids text[]      not null,
    -- null: none of them has one.
    trace_ids       text[],
    producers       text[],
    payloads        bytea[]     not null,
    primary key (partition_id, first_offset)
) with (toast_tuple_target = 8160, autovacuum_vacuum_insert_scale_factor = 0.1);
-- Not compressed: it would cost more time than the disk it saves, at the sizes that messages have.
alter table {schema}.segment alter column payloads set storage external;
alter table {schema}.segment alter column transaction_ids set storage external;

-- A consumer group of a queue: where it began. Its cursors are one per partition.
create table {schema}.consumer (
    id         integer     generated always as identity primary key,
    queue_id   integer     not null references {schema}.queue on delete cascade,
    name       text        not null,
    -- all, new, or timestamp.
    mode       text        not null,
    since      timestamptz,
    created_at timestamptz not null default now()
);
create unique index consumer_name on {schema}.consumer (queue_id, md5(name));
create index consumer_by_name on {schema}.consumer (md5(name));

-- How far a consumer group has come in a partition. Work is this row: `due_at` says when to look at it next. That is now while something can be read,
-- the end of the lease while somebody has it, and infinity when everything was read: the next push sets it.
-- Every change makes a new `version`. The newest is found by reading the key backwards, so the dead ones that an old transaction keeps are never met.
create table {schema}.cursor (
    partition_id bigint      not null,
    -- Removed with its consumer, by who removes that: a foreign key would look for them without an index.
    consumer_id  integer     not null,
    version      bigint      not null default 0,
    due_at       timestamptz not null,
    -- The first offset that has not been consumed.
    position     bigint      not null,
    -- Who reads, and up to before which offset.
    lease_id     uuid,
    lease_end    bigint,
    -- The lease before: its holder may not have heard that its ack arrived.
    last_lease   uuid,
    -- How often the first message was refused.
    retries      integer     not null default 0,
    -- When it was last given out, and to the end of what.
    read_at      timestamptz,
    primary key (partition_id, consumer_id, version)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_truncate = off);
create index cursor_due on {schema}.cursor (consumer_id, due_at) where due_at < 'infinity';
create index cursor_lease on {schema}.cursor (lease_id) where lease_id is not null;
