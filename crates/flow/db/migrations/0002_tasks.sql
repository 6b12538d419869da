-- One run of a template: what changes while it runs. Whoever ends a step has this row's lock, so that whatever is decided about a task is decided by one at a time.
create table {schema}.task (
    id            uuid        primary key,
    namespace_id  integer     not null,
    template_id   integer     not null,
    -- o: open, c: complete, e: error, x: cancelled, m: resolved manually.
    state         "char"      not null,
    priority      smallint    not null,
    -- Steps that are not done yet, those that have not come to be included.
    unfinished    integer     not null,
    -- Steps that failed for good, and that the rest cannot go on without.
    failed        integer     not null default 0,
    -- The number of the next step that comes to be beyond the template's.
    next_ordinal  integer     not null,
    -- When it may have taken too long.
    due_at        timestamptz not null default 'infinity',
    -- Until when somebody wants to hear of every change, and of its end.
    watched_until timestamptz,
    awaited_until timestamptz,
    created_at    timestamptz not null default now(),
    updated_at    timestamptz not null default now(),
    ended_at      timestamptz,
    -- When a person let it go on: it has its time again.
    resumed_at    timestamptz
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, vacuum_truncate = off);
create index task_due on {schema}.task (due_at) where due_at < 'infinity';
-- What waits for a person: tasks in which something failed.
create index task_failed on {schema}.task (namespace_id, id) where failed > 0;
-- Lists are of one namespace, of one state, or both, the newest first.
create index task_listed on {schema}.task (namespace_id, state, id);

-- And what does not.
create table {schema}.task_detail (
    task_id               uuid   primary key,
    -- What no other task may have.
    identity              uuid   unique,
    context               text   not null,
    initiator             text,
    source_system         text,
    reason                text,
    tags                  text[] not null,
    correlation_id        text,
    parent_correlation_id text,
    idempotency_key       text
);
create index task_detail_correlation on {schema}.task_detail (correlation_id, task_id) where correlation_id is not null;

-- A step of a task. Work is this row: `due_at` says when it is next to be looked at. That is now while it can be claimed, the end of the lease while a worker has it, the end of the
-- pause while it waits for another attempt, and infinity otherwise.
create table {schema}.step (
    task_id  uuid        not null,
    -- The place of its definition; of parts beyond the first, numbers beyond those.
    ordinal  integer     not null,
    slot     integer     not null,
    -- Of a batch worker: which part, from 1.
    part     integer,
    lane_id  integer     not null,
    -- a: has not come to be, p: waits for parents, r: ready, i: a worker has it, w: waits for another attempt, c: complete, e: error, x: cancelled, m: resolved manually,
    -- s: never came to be.
    state    "char"      not null,
    -- Parents that are not done.
    waiting  integer     not null,
    due_at   timestamptz not null default 'infinity',
    -- When it came to be, if not with its task; when it could be claimed; and when it came to the state it is in.
    came_at  timestamptz,
    ready_at timestamptz,
    since    timestamptz not null default now(),
    -- A later one with every claim: whoever presents an older one has lost the step.
    fence    bigint      not null default 0,
    attempt  integer     not null default 0,
    worker   text,
    primary key (task_id, ordinal)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, vacuum_truncate = off);
create index step_due on {schema}.step (lane_id, due_at) where due_at < 'infinity';

-- What a step has beside its result: what a part is to work on, and how far a worker has come.
create table {schema}.step_data (
    task_id    uuid    not null,
    ordinal    integer not null,
    input      text,
    checkpoint text,
    primary key (task_id, ordinal)
);

-- An attempt that has ended: who, when, how. Only ever appended: the history of a task is this, and when its steps became ready.
create table {schema}.attempt (
    task_id    uuid        not null,
    ordinal    integer     not null,
    -- Of the claim; below zero for what a person did.
    fence      bigint      not null,
    attempt    integer     not null,
    -- c: complete, f: failed and to be tried again, e: failed for good, l: its lease ended, g: given back, y: yielded after a checkpoint, x: taken away, by a person or with its task.
    -- Of what a person did: c: complete, m: resolved manually, r: reset.
    outcome    "char"      not null,
    worker     text,
    ready_at   timestamptz,
    claimed_at timestamptz,
    ended_at   timestamptz not null default now(),
    result     text,
    error      text,
    -- Why a person did it.
    reason     text,
    primary key (task_id, ordinal, fence)
);

-- What people did with whole tasks. What they did with steps is among the attempts.
create table {schema}.task_operation (
    id           bigint      generated always as identity primary key,
    task_id      uuid        not null,
    -- x: cancelled, m: resolved manually.
    operation    "char"      not null,
    state_before "char"      not null,
    operator     text        not null,
    reason       text,
    operated_at  timestamptz not null default now()
);
create index task_operation_task on {schema}.task_operation (task_id);
