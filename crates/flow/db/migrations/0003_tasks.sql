-- One run of a template: the part that changes. Completing a step locks this row, so that every decision about a task
-- is made by one transaction at a time.
create table {schema}.task (
    id            uuid        primary key,
    namespace_id  integer     not null,
    template_id   integer     not null,
    state         {schema}.task_state not null,
    priority      smallint    not null,
    -- Steps that are not done, those that are not created yet included.
    unfinished    integer     not null,
    -- Steps that failed permanently and that the task cannot go on without.
    failed        integer     not null default 0,
    -- The ordinal of the next step beyond those of the template.
    next_ordinal  integer     not null,
    -- When to check its lifecycle limits.
    due_at        timestamptz not null default 'infinity',
    -- Until when every change, or the end, wakes waiting clients.
    watched_until timestamptz,
    awaited_until timestamptz,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    ended_at      timestamptz,
    -- When an operator resumed it: its lifecycle limits count from here.
    resumed_at    timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, vacuum_truncate = off);
create index task_due on {schema}.task (due_at) where due_at < 'infinity';
-- Tasks with a permanent failure, which wait for an operator.
create index task_failed on {schema}.task (namespace_id, id) where failed > 0;
-- Lists are of one namespace, of one state, or both, newest first.
create index task_listed on {schema}.task (namespace_id, state, id);
-- Retention reads the tasks of a namespace and state that ended first. `ended_at` does not change while a task runs, so
-- this costs one entry per task.
create index task_ended on {schema}.task (namespace_id, state, ended_at) where ended_at is not null;

-- The part of a task that never changes.
create table {schema}.task_detail (
    task_id               uuid   primary key,
    -- No two tasks have the same identity.
    identity              uuid   unique,
    context               text   not null,
    initiator             text,
    source_system         text,
    reason                text,
    tags                  text[] not null,
    correlation_id        text,
    parent_correlation_id text,
    idempotency_key       text
) with (autovacuum_vacuum_scale_factor = 0.05);
create index task_detail_correlation on {schema}.task_detail (correlation_id, task_id) where correlation_id is not null;
-- fastupdate = off: every search would have to read the pending entries.
create index task_detail_tags on {schema}.task_detail using gin (tags) with (fastupdate = off) where tags <> '{}';

-- A step of a task. This row is the queue entry: a finite `due_at` puts the step into its queue.
create table {schema}.step (
    task_id      uuid        not null,
    -- The position of its definition; the parts of a batch beyond the first have ordinals beyond the template's.
    ordinal      integer     not null,
    -- The position of its definition.
    slot         integer     not null,
    -- Of a batch worker: which part, from 1.
    part         integer,
    queue_id     bigint      not null,
    state        {schema}.step_state not null,
    open_parents integer     not null,
    -- ready: when it can be claimed. in_progress: when the lease ends. waiting_for_retry: when the next attempt may
    -- begin. Otherwise infinity.
    due_at       timestamptz not null default 'infinity',
    -- When it was created, if that was not with its task.
    created_at   timestamptz,
    ready_at     timestamptz,
    -- When it entered its state.
    since        timestamptz not null default now(),
    -- The number of the last claim. A report under another number is refused.
    fence        bigint      not null default 0,
    attempt      integer     not null default 0,
    worker       text,
    -- In a namespace with another queue provider: the number of the message that was sent last. A delivery of that
    -- message may claim the step, and `due_at` is when it is sent again. Null: no message is under way.
    published    bigint,
    -- The queues of all names of the namespace at this priority, for claims of any step: see step_queue.
    namespace_queue_id bigint not null generated always as (queue_id & -1099511562241) stored,
    primary key (task_id, ordinal)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, vacuum_truncate = off);
-- For claims of any step of a namespace, and for claims by name.
create index step_due_in_namespace on {schema}.step (namespace_queue_id, due_at) where due_at < 'infinity';
create index step_due_in_queue on {schema}.step (queue_id, due_at) where due_at < 'infinity';

-- The input of a part of a batch, and the last checkpoint of a step. Few steps have either.
create table {schema}.step_data (
    task_id    uuid    not null,
    ordinal    integer not null,
    input      text,
    checkpoint text,
    primary key (task_id, ordinal)
);

-- An attempt that has ended. Append-only: the history of a task is derived from it.
create table {schema}.attempt (
    task_id    uuid        not null,
    ordinal    integer     not null,
    -- The number of the claim; negative for an entry of an operator.
    fence      bigint      not null,
    attempt    integer     not null,
    outcome    {schema}.attempt_outcome not null,
    -- The worker, or the operator.
    worker     text,
    ready_at   timestamptz,
    claimed_at timestamptz,
    ended_at   timestamptz not null default now(),
    result     text,
    error      text,
    -- The operator's reason.
    reason     text,
    primary key (task_id, ordinal, fence)
) with (autovacuum_vacuum_scale_factor = 0.05);

-- What operators did with whole tasks. What they did with steps is among the attempts.
create table {schema}.task_operation (
    id           bigint      generated always as identity primary key,
    task_id      uuid        not null,
    -- The state that the operation led to.
    operation    {schema}.task_state not null,
    state_before {schema}.task_state not null,
    operator     text        not null,
    reason       text,
    operated_at  timestamptz not null default now()
);
create index task_operation_task on {schema}.task_operation (task_id);

-- Removed tasks of which rows may be left in other tables. Those are deleted a few thousand at a time: a task may have
-- a million of them.
create table {schema}.removed_task (
    task_id uuid primary key
);
