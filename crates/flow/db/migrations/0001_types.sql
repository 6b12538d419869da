-- The words that states, kinds and outcomes are stored as. An enum value takes four bytes, and psql shows its word.

-- Whether a task runs, or how it ended.
create type {schema}.task_state as enum ('open', 'complete', 'error', 'cancelled', 'resolved_manually');

-- not_created: a decision or a batch may still create the step. skipped: none will.
create type {schema}.step_state as enum (
    'not_created', 'pending', 'ready', 'in_progress', 'waiting_for_retry',
    'complete', 'error', 'cancelled', 'resolved_manually', 'skipped'
);

-- How an attempt ended. The last four are entries of an operator; `cancelled` is a step that ended with its task
-- before an operator reset it.
create type {schema}.attempt_outcome as enum (
    'complete', 'failed', 'failed_for_good', 'lease_ended', 'timed_out', 'timed_out_for_good', 'given_back', 'yielded',
    'taken_away', 'completed_manually', 'resolved_manually', 'reset', 'cancelled'
);

create type {schema}.step_kind as enum ('standard', 'decision', 'deferred_convergence', 'batchable', 'batch_worker');

create type {schema}.backoff_kind as enum ('none', 'linear', 'exponential', 'fibonacci');

-- What the permanent failure of one part of a batch means. fail_fast: the task fails. continue_on_failure: the other
-- parts go on. isolate: the other parts go on, and the failed one is listed as an investigation.
create type {schema}.failure_strategy as enum ('fail_fast', 'continue_on_failure', 'isolate');

-- What happens to a task that exceeds a limit of its lifecycle. dlq: it fails and is investigated. alert: it is
-- investigated. error: it fails.
create type {schema}.staleness_action as enum ('dlq', 'alert', 'error');

-- How the steps of a namespace are claimed. shadow: notifications are received and measured; nothing is claimed.
create type {schema}.claim_mode as enum ('event_driven', 'polling', 'shadow');

-- The queue through which the steps of a namespace reach their workers.
create type {schema}.queue_provider as enum ('table', 'pgmq', 'rabbitmq');

-- What happens to ticks of a schedule that were missed.
create type {schema}.missed_ticks as enum ('skip', 'latest', 'all');

-- The rows that batches of writes are made of.

-- A task to create.
create type {schema}.new_task as (
    id                    uuid,
    template_id           integer,
    priority              smallint,
    identity              uuid,
    -- After how long its lifecycle limits are checked; null: never.
    limit_ms              bigint,
    context               text,
    initiator             text,
    source_system         text,
    reason                text,
    correlation_id        text,
    parent_correlation_id text,
    idempotency_key       text,
    tags                  text[]
);

-- What a worker reports about a step: see functions/complete_steps.sql.
create type {schema}.step_report as (
    task_id     uuid,
    ordinal     integer,
    fence       bigint,
    -- complete, failed, failed_for_good, yielded, given_back; or lease_ended, of the engine.
    report      text,
    -- The result, the error, or the checkpoint.
    body        text,
    -- The handler's own pause before the next attempt; null: the template's.
    delay_ms    bigint,
    -- The definition that the token was issued for; null: not checked.
    template_id integer,
    slot        integer,
    -- The steps that a decision chose, and the inputs of the parts of a batch.
    chosen      integer[],
    inputs      text[]
);

-- What a report led to: the working set of functions/complete_steps.sql.
create type {schema}.ended_step as (
    -- The position of its report.
    index       integer,
    task_id     uuid,
    ordinal     integer,
    slot        integer,
    queue_id    bigint,
    template_id integer,
    kind        {schema}.step_kind,
    -- complete; retry; failed: permanently; part_failed: permanently, and the task goes on without this part;
    -- released: ready again, the attempt is not charged; lease_ended: ready again.
    verdict     text,
    outcome     {schema}.attempt_outcome,
    body        text,
    pause_ms    bigint,
    -- Its task has a permanent failure: nothing new begins in it.
    suspended   boolean,
    -- The worker said that another attempt would fail as well.
    not_retryable boolean,
    publishes   boolean,
    chosen      integer[],
    inputs      text[]
);

-- What an operator does with a step: see functions/operate_step.sql.
create type {schema}.step_operation as (
    task_id  uuid,
    slot     integer,
    part     integer,
    -- reset, resolved_manually or completed_manually.
    outcome  {schema}.attempt_outcome,
    -- The states in which the step may be.
    allowed  {schema}.step_state[],
    operator text,
    reason   text,
    result   text,
    chosen   integer[],
    inputs   text[],
    -- How long a task that goes on may take from now; null: no limit.
    limit_ms bigint,
    -- Change nothing, and answer what would be refused.
    preview  boolean
);
