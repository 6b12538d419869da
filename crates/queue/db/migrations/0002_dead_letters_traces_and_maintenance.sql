-- Messages that a consumer group gave up, copied in full: they outlive retention.
create table {schema}.dead_letter (
    id             bigint      generated always as identity primary key,
    queue_id       integer     not null references {schema}.queue on delete cascade,
    partition_id   bigint      not null,
    consumer       text        not null,
    message_offset bigint      not null,
    message_id     uuid        not null,
    transaction_id text        not null,
    trace_id       text,
    producer       text,
    encrypted      boolean     not null,
    payload        bytea       not null,
    error          text,
    retries        integer     not null,
    created_at     timestamptz not null,
    failed_at      timestamptz not null default now()
);
create index dead_letter_queue on {schema}.dead_letter (queue_id, id);
create index dead_letter_partition on {schema}.dead_letter (partition_id);

-- Events that consumers recorded about a message.
create table {schema}.trace (
    id             bigint      generated always as identity primary key,
    partition_id   bigint      not null references {schema}.partition on delete cascade,
    transaction_id text        not null,
    consumer       text        not null,
    event_type     text        not null,
    data           text        not null,
    worker         text,
    names          text[]      not null,
    created_at     timestamptz not null default now()
);
create index trace_message on {schema}.trace (partition_id, md5(transaction_id));
-- The names of each trace, to search by.
create table {schema}.trace_name (
    name     text   not null,
    trace_id bigint not null references {schema}.trace on delete cascade
);
create index trace_name_name on {schema}.trace_name (md5(name), trace_id);
create index trace_name_trace on {schema}.trace_name (trace_id);

-- The two maintenance switches, for all servers of this schema.
create table {schema}.maintenance (
    name    text    primary key check (name in ('push', 'pop')),
    enabled boolean not null
);
insert into {schema}.maintenance (name, enabled) values ('push', false), ('pop', false);

-- Messages that were pushed during push maintenance, in order.
create table {schema}.buffered (
    id             bigint      generated always as identity primary key,
    queue          text        not null,
    partition      text        not null,
    message_id     uuid        not null,
    transaction_id text        not null,
    trace_id       text,
    producer       text,
    payload        bytea       not null,
    encrypted      boolean     not null,
    created_at     timestamptz not null default now()
);
