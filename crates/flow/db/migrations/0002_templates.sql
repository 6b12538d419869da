-- Workers claim steps by namespace.
create table {schema}.namespace (
    id                 integer     generated always as identity primary key,
    name               text        not null unique,
    description        text        not null default '',
    mode               {schema}.claim_mode not null default 'event_driven',
    -- The interval between two claims of a polling worker.
    poll_ms            integer     not null default 1000,
    -- Whether the fallback poller searches for ready steps that were not claimed.
    fallback           boolean     not null default true,
    provider           {schema}.queue_provider not null default 'table',
    -- Whether events are published on the channels for outside listeners.
    announces          boolean     not null default false,
    -- Incremented by every change. The sum over all namespaces tells a process whether its copy is current.
    version            bigint      not null default 1,
    created_at         timestamptz not null default now(),
    -- How long ended tasks are kept; null: forever. A failed task waits for an operator, so it is kept longer.
    retention_s        bigint               default 2592000,
    failed_retention_s bigint               default 7776000
);

-- The settings of new namespaces. The row `default` applies to a namespace that names no other template.
create table {schema}.namespace_template (
    name               text    primary key,
    mode               {schema}.claim_mode not null,
    poll_ms            integer not null,
    fallback           boolean not null,
    provider           {schema}.queue_provider not null,
    announces          boolean not null,
    retention_s        bigint           default 2592000,
    failed_retention_s bigint           default 7776000
);

-- A task template. Immutable: another text is another version.
create table {schema}.template (
    id                integer     generated always as identity primary key,
    namespace_id      integer     not null references {schema}.namespace,
    name              text        not null,
    version           text        not null,
    -- The registered text as JSON: for people, and to check contexts and results.
    document          text        not null,
    -- The limits of a task, in total and in one state; null: no limit.
    max_duration_ms   bigint,
    max_waiting_ms    bigint,
    max_retry_ms      bigint,
    max_in_process_ms bigint,
    staleness         {schema}.staleness_action not null,
    created_at        timestamptz not null default now(),
    -- What lists show, so that they do not read the document: the beginning of the description, and how many steps.
    description       text        not null default '',
    step_count        integer     not null default 0,
    unique (namespace_id, name, version)
);
-- The namespace is an expression, so that the planner never prefers the unique key to this index: a test read 12 079
-- pages for 20 templates of 12 002 when it did.
create index template_listed on {schema}.template ((namespace_id + 0), name, id);

-- A step of a template, as the engine needs it. `ordinal` is its position from 0; parents and children are positions.
create table {schema}.definition (
    template_id      integer   not null references {schema}.template on delete cascade,
    ordinal          integer   not null,
    name             text      not null,
    kind             {schema}.step_kind not null,
    parents          integer[] not null,
    children         integer[] not null,
    -- Created only if a decision or a batch asks for it while the task runs.
    conditional      boolean   not null,
    callable         text      not null,
    initialization   text      not null,
    -- 1: not retried.
    max_attempts     integer   not null,
    backoff          {schema}.backoff_kind not null,
    backoff_base_ms  integer   not null,
    max_backoff_ms   integer   not null,
    jitter           real      not null,
    timeout_ms       bigint,
    -- Batch workers only.
    failure_strategy {schema}.failure_strategy,
    -- The domain events to publish on success, and on permanent failure.
    success_events   text[]    not null,
    failure_events   text[]    not null,
    primary key (template_id, ordinal)
);
-- Workers may claim by callable: it leads to the names of steps.
create index definition_callable on {schema}.definition (callable);
create index definition_name on {schema}.definition (name);

-- All ancestors of a step of a template, as ranges of positions: the steps whose results it receives. A step has no row
-- if its ranges would be too many, or if it follows the parts of a batch: its ancestors are found parent by parent.
create table {schema}.ancestry (
    template_id integer        not null references {schema}.template on delete cascade,
    ordinal     integer        not null,
    ancestors   int4multirange not null,
    primary key (template_id, ordinal)
);

-- How many steps may be in progress at once: in a namespace, or of one name in it.
create table {schema}.step_limit (
    id           integer generated always as identity primary key,
    namespace_id integer not null references {schema}.namespace,
    -- Empty: the limit of the namespace.
    name         text    not null,
    max_running  integer not null,
    running      integer not null,
    unique (namespace_id, name)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02);

-- A step waits in the queue of its namespace, name and priority. The id tells where the queue belongs: bits 40 to 62
-- are the namespace, bits 16 to 39 the number of the name in it (from 1), bits 0 to 15 the priority (from the lowest).
-- So the queues of a namespace, and those of a name in it, are ranges of ids. With 0 as the number of the name, the id
-- means the queues of all names of a namespace at one priority: see step.namespace_queue_id. Queue 0 belongs to the
-- engine: it holds the leases that no claim may take over, of last attempts and of steps with a limit.
create table {schema}.step_queue (
    id                 bigint   primary key,
    namespace_id       integer  not null references {schema}.namespace,
    name               text     not null,
    priority           smallint not null,
    namespace_limit_id integer  references {schema}.step_limit,
    name_limit_id      integer  references {schema}.step_limit,
    unique (namespace_id, name, priority)
);
