-- Whose tasks they are. Workers claim steps by namespace.
create table {schema}.namespace (
    id          integer     generated always as identity primary key,
    name        text        not null unique,
    description text        not null default '',
    -- How its steps are claimed. e: when they are there, p: by asking every `poll_ms`, s: not at all, but it is listened and measured.
    mode        "char"      not null default 'e',
    poll_ms     integer     not null default 1000,
    -- Whether what was ready for long, and nobody heard of, is looked for.
    fallback    boolean     not null default true,
    -- Through what its steps are handed out. t: these tables, p: PGMQ, r: RabbitMQ.
    provider    "char"      not null default 't',
    -- Whether listeners outside are told of what happens in it.
    announces   boolean     not null default false,
    -- How often it was changed: all of them together never are the same again after a change.
    version     bigint      not null default 1,
    created_at  timestamptz not null default now()
);

-- What a new namespace begins with that says so; `default` is for those that do not.
create table {schema}.namespace_template (
    name      text    primary key,
    mode      "char"  not null,
    poll_ms   integer not null,
    fallback  boolean not null,
    provider  "char"  not null,
    announces boolean not null
);

-- What a task of a kind consists of. Never changes: another text is another version.
create table {schema}.template (
    id           integer     generated always as identity primary key,
    namespace_id integer     not null references {schema}.namespace,
    name         text        not null,
    version      text        not null,
    -- As it was registered, as JSON; for people, and for whoever has to check a context or a result.
    document     text        not null,
    -- How long a task may take, altogether and in each state; null: for ever.
    max_duration_ms   bigint,
    max_waiting_ms    bigint,
    max_retry_ms      bigint,
    max_in_process_ms bigint,
    -- What happens to one that took longer. d: it fails and is looked into, a: it is looked into, e: it fails.
    staleness    "char"      not null,
    created_at   timestamptz not null default now(),
    unique (namespace_id, name, version)
);

-- A step of a template: what the engine has to know of it. `ordinal` is its place, from 0; parents and children are places.
create table {schema}.definition (
    template_id      integer   not null references {schema}.template on delete cascade,
    ordinal          integer   not null,
    name             text      not null,
    -- s: standard, d: decision, c: deferred convergence, b: batchable, w: batch worker.
    kind             "char"    not null,
    parents          integer[] not null,
    children         integer[] not null,
    -- It comes to be while its task runs, if at all.
    absent           boolean   not null,
    callable         text      not null,
    initialization   text      not null,
    -- 1 if it is not retried.
    max_attempts     integer   not null,
    -- n: none, l: linear, e: exponential, f: fibonacci.
    backoff          "char"    not null,
    backoff_base_ms  integer   not null,
    max_backoff_ms   integer   not null,
    jitter           real      not null,
    timeout_ms       bigint,
    -- Of a batch worker, what a part that fails for good means: f: the task fails, c: the rest goes on, i: the rest goes on and it is looked into.
    failure_strategy "char",
    -- What is told when it is done, and when it failed for good.
    success_events   text[]    not null,
    failure_events   text[]    not null,
    primary key (template_id, ordinal)
);

-- How many steps may be under way at once: in a namespace, or of a name in it.
create table {schema}.step_limit (
    id           integer generated always as identity primary key,
    namespace_id integer not null references {schema}.namespace,
    -- Empty: all.
    name         text    not null,
    most         integer not null,
    -- How many are.
    running      integer not null,
    unique (namespace_id, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- Where steps wait to be claimed: those of one name and one priority. Steps are found by their lane and when they are due. Lane 0 is the engine's own: there are the leases that nobody
-- else looks at when they end, of last attempts and of steps whose lanes are limited.
create table {schema}.step_lane (
    id             integer  generated always as identity primary key,
    namespace_id   integer  not null references {schema}.namespace,
    name           text     not null,
    priority       smallint not null,
    space_limit_id integer  references {schema}.step_limit,
    name_limit_id  integer  references {schema}.step_limit,
    unique (namespace_id, name, priority)
);
