-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create type {schema}.attempt_outcome as enum ('complete', 'failed', 'failed_for_good', 'lease_ended', 'timed_out', 'timed_out_for_good', 'given_back', 'yielded', 'taken_away', 'completed_manually', 'resolved_manually', 'reset', 'cancelled');

create type {schema}.backoff_kind as enum ('none', 'linear', 'exponential', 'fibonacci');

create type {schema}.claim_mode as enum ('event_driven', 'polling', 'shadow');

create type {schema}.failure_strategy as enum ('fail_fast', 'continue_on_failure', 'isolate');

create type {schema}.missed_ticks as enum ('skip', 'latest', 'all');

create type {schema}.queue_provider as enum ('table', 'pgmq', 'rabbitmq');

create type {schema}.staleness_action as enum ('dlq', 'alert', 'error');

create type {schema}.step_kind as enum ('standard', 'decision', 'deferred_convergence', 'batchable', 'batch_worker');

create type {schema}.step_state as enum ('not_created', 'pending', 'ready', 'in_progress', 'waiting_for_retry', 'complete', 'error', 'cancelled', 'resolved_manually', 'skipped');

create type {schema}.task_state as enum ('open', 'complete', 'error', 'cancelled', 'resolved_manually');

create type {schema}.ended_step as (
    index integer,
    task_id uuid,
    ordinal integer,
    slot integer,
    queue_id bigint,
    template_id integer,
    kind {schema}.step_kind,
    verdict text,
    outcome {schema}.attempt_outcome,
    body text,
    pause_ms bigint,
    suspended boolean,
    not_retryable boolean,
    publishes boolean,
    chosen integer[],
    inputs text[]
);

create type {schema}.new_task as (
    id uuid,
    template_id integer,
    priority smallint,
    identity uuid,
    limit_ms bigint,
    context text,
    initiator text,
    source_system text,
    reason text,
    correlation_id text,
    parent_correlation_id text,
    idempotency_key text,
    tags text[]
);

create type {schema}.step_operation as (
    task_id uuid,
    slot integer,
    part integer,
    outcome {schema}.attempt_outcome,
    allowed {schema}.step_state[],
    operator text,
    reason text,
    result text,
    chosen integer[],
    inputs text[],
    limit_ms bigint,
    preview boolean
);

create type {schema}.step_report as (
    task_id uuid,
    ordinal integer,
    fence bigint,
    report text,
    body text,
    delay_ms bigint,
    template_id integer,
    slot integer,
    chosen integer[],
    inputs text[]
);

create table {schema}.ancestry (
    template_id integer not null,
    ordinal integer not null,
    ancestors int4multirange not null,
    constraint ancestry_pkey PRIMARY KEY (template_id, ordinal),
    constraint ancestry_template_id_fkey FOREIGN KEY (template_id) REFERENCES {schema}.template(id) ON DELETE CASCADE
);

create table {schema}.attempt (
    task_id uuid not null,
    ordinal integer not null,
    fence bigint not null,
    attempt integer not null,
    outcome {schema}.attempt_outcome not null,
    worker text,
    ready_at timestamp with time zone,
    claimed_at timestamp with time zone,
    ended_at timestamp with time zone not null default now(),
    result text,
    error text,
    reason text,
    constraint attempt_pkey PRIMARY KEY (task_id, ordinal, fence)
) with (autovacuum_vacuum_scale_factor=0.05);

create table {schema}.definition (
    template_id integer not null,
    ordinal integer not null,
    name text not null,
    kind {schema}.step_kind not null,
    parents integer[] not null,
    children integer[] not null,
    conditional boolean not null,
    callable text not null,
    initialization text not null,
    max_attempts integer not null,
    backoff {schema}.backoff_kind not null,
    backoff_base_ms integer not null,
    max_backoff_ms integer not null,
    jitter real not null,
    timeout_ms bigint,
    failure_strategy {schema}.failure_strategy,
    success_events text[] not null,
    failure_events text[] not null,
    constraint definition_pkey PRIMARY KEY (template_id, ordinal),
    constraint definition_template_id_fkey FOREIGN KEY (template_id) REFERENCES {schema}.template(id) ON DELETE CASCADE
);
CREATE INDEX definition_callable ON {schema}.definition USING btree (callable);
CREATE INDEX definition_name ON {schema}.definition USING btree (name);

create table {schema}.domain_event (
    transaction_id xid8 not null default pg_current_xact_id(),
    id bigint not null generated always as identity,
    task_id uuid not null,
    ordinal integer not null,
    name text not null,
    succeeded boolean not null,
    payload text,
    created_at timestamp with time zone not null default now(),
    constraint domain_event_pkey PRIMARY KEY (transaction_id, id)
) with (autovacuum_vacuum_scale_factor=0.05);
CREATE INDEX domain_event_task ON {schema}.domain_event USING btree (task_id);

create table {schema}.investigation (
    id bigint not null generated always as identity,
    task_id uuid not null,
    ordinal integer,
    reason text not null,
    snapshot text not null,
    created_at timestamp with time zone not null default now(),
    resolution text,
    resolved_by text,
    notes text,
    resolved_at timestamp with time zone,
    constraint investigation_pkey PRIMARY KEY (id)
);
CREATE INDEX investigation_newest_open ON {schema}.investigation USING btree (id) WHERE (resolved_at IS NULL);
CREATE UNIQUE INDEX investigation_open ON {schema}.investigation USING btree (task_id) WHERE (resolved_at IS NULL);
CREATE INDEX investigation_task ON {schema}.investigation USING btree (task_id);

create table {schema}.migration (
    component text not null,
    number integer,
    name text not null,
    hash text not null,
    applied_at timestamp with time zone not null default now(),
    constraint migration_number_check CHECK ((number > 0))
);
CREATE UNIQUE INDEX migration_function ON {schema}.migration USING btree (component, name) WHERE (number IS NULL);
CREATE UNIQUE INDEX migration_number ON {schema}.migration USING btree (component, number) WHERE (number IS NOT NULL);

create table {schema}.namespace (
    id integer not null generated always as identity,
    name text not null,
    description text not null default ''::text,
    mode {schema}.claim_mode not null default 'event_driven'::{schema}.claim_mode,
    poll_ms integer not null default 1000,
    fallback boolean not null default true,
    provider {schema}.queue_provider not null default 'table'::{schema}.queue_provider,
    announces boolean not null default false,
    version bigint not null default 1,
    created_at timestamp with time zone not null default now(),
    retention_s bigint default 2592000,
    failed_retention_s bigint default 7776000,
    constraint namespace_name_key UNIQUE (name),
    constraint namespace_pkey PRIMARY KEY (id)
);

create table {schema}.namespace_template (
    name text not null,
    mode {schema}.claim_mode not null,
    poll_ms integer not null,
    fallback boolean not null,
    provider {schema}.queue_provider not null,
    announces boolean not null,
    retention_s bigint default 2592000,
    failed_retention_s bigint default 7776000,
    constraint namespace_template_pkey PRIMARY KEY (name)
);

create table {schema}.removed_task (
    task_id uuid not null,
    constraint removed_task_pkey PRIMARY KEY (task_id)
);

create table {schema}.schedule (
    id uuid not null,
    namespace_id integer not null,
    name text not null,
    template_name text not null,
    template_version text not null,
    context text not null,
    priority smallint not null,
    tags text[] not null,
    cron text,
    time_zone text,
    at timestamp with time zone,
    missed {schema}.missed_ticks not null,
    grace_seconds integer not null,
    paused boolean not null,
    version bigint not null default 1,
    next_at timestamp with time zone not null,
    due_at timestamp with time zone not null,
    last_at timestamp with time zone,
    last_task uuid,
    last_error text,
    created_at timestamp with time zone not null default now(),
    updated_at timestamp with time zone not null default now(),
    constraint schedule_check CHECK ((((cron IS NULL) = (time_zone IS NULL)) AND ((cron IS NULL) <> (at IS NULL)))),
    constraint schedule_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint schedule_namespace_id_name_key UNIQUE (namespace_id, name),
    constraint schedule_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=70, vacuum_truncate=off);
CREATE INDEX schedule_due ON {schema}.schedule USING btree (due_at) WHERE (due_at < 'infinity'::timestamp with time zone);

create table {schema}.step (
    task_id uuid not null,
    ordinal integer not null,
    slot integer not null,
    part integer,
    queue_id bigint not null,
    state {schema}.step_state not null,
    open_parents integer not null,
    due_at timestamp with time zone not null default 'infinity'::timestamp with time zone,
    created_at timestamp with time zone,
    ready_at timestamp with time zone,
    since timestamp with time zone not null default now(),
    fence bigint not null default 0,
    attempt integer not null default 0,
    worker text,
    published bigint,
    namespace_queue_id bigint not null generated always as ((queue_id & '-1099511562241'::bigint)) stored,
    constraint step_pkey PRIMARY KEY (task_id, ordinal)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=70, vacuum_truncate=off);
CREATE INDEX step_due_in_namespace ON {schema}.step USING btree (namespace_queue_id, due_at) WHERE (due_at < 'infinity'::timestamp with time zone);
CREATE INDEX step_due_in_queue ON {schema}.step USING btree (queue_id, due_at) WHERE (due_at < 'infinity'::timestamp with time zone);

create table {schema}.step_data (
    task_id uuid not null,
    ordinal integer not null,
    input text,
    checkpoint text,
    constraint step_data_pkey PRIMARY KEY (task_id, ordinal)
);

create table {schema}.step_limit (
    id integer not null generated always as identity,
    namespace_id integer not null,
    name text not null,
    max_running integer not null,
    running integer not null,
    constraint step_limit_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint step_limit_namespace_id_name_key UNIQUE (namespace_id, name),
    constraint step_limit_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=50);

create table {schema}.step_queue (
    id bigint not null,
    namespace_id integer not null,
    name text not null,
    priority smallint not null,
    namespace_limit_id integer,
    name_limit_id integer,
    constraint step_queue_name_limit_id_fkey FOREIGN KEY (name_limit_id) REFERENCES {schema}.step_limit(id),
    constraint step_queue_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint step_queue_namespace_id_name_priority_key UNIQUE (namespace_id, name, priority),
    constraint step_queue_namespace_limit_id_fkey FOREIGN KEY (namespace_limit_id) REFERENCES {schema}.step_limit(id),
    constraint step_queue_pkey PRIMARY KEY (id)
);

create table {schema}.task (
    id uuid not null,
    namespace_id integer not null,
    template_id integer not null,
    state {schema}.task_state not null,
    priority smallint not null,
    unfinished integer not null,
    failed integer not null default 0,
    next_ordinal integer not null,
    due_at timestamp with time zone not null default 'infinity'::timestamp with time zone,
    watched_until timestamp with time zone,
    awaited_until timestamp with time zone,
    created_at timestamp with time zone not null default now(),
    updated_at timestamp with time zone not null default now(),
    ended_at timestamp with time zone,
    resumed_at timestamp with time zone,
    constraint task_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=70, vacuum_truncate=off);
CREATE INDEX task_due ON {schema}.task USING btree (due_at) WHERE (due_at < 'infinity'::timestamp with time zone);
CREATE INDEX task_ended ON {schema}.task USING btree (namespace_id, state, ended_at) WHERE (ended_at IS NOT NULL);
CREATE INDEX task_failed ON {schema}.task USING btree (namespace_id, id) WHERE (failed > 0);
CREATE INDEX task_listed ON {schema}.task USING btree (namespace_id, state, id);

create table {schema}.task_detail (
    task_id uuid not null,
    identity uuid,
    context text not null,
    initiator text,
    source_system text,
    reason text,
    tags text[] not null,
    correlation_id text,
    parent_correlation_id text,
    idempotency_key text,
    constraint task_detail_identity_key UNIQUE (identity),
    constraint task_detail_pkey PRIMARY KEY (task_id)
) with (autovacuum_vacuum_scale_factor=0.05);
CREATE INDEX task_detail_correlation ON {schema}.task_detail USING btree (correlation_id, task_id) WHERE (correlation_id IS NOT NULL);
CREATE INDEX task_detail_tags ON {schema}.task_detail USING gin (tags) WITH (fastupdate=off) WHERE (tags <> '{}'::text[]);

create table {schema}.task_operation (
    id bigint not null generated always as identity,
    task_id uuid not null,
    operation {schema}.task_state not null,
    state_before {schema}.task_state not null,
    operator text not null,
    reason text,
    operated_at timestamp with time zone not null default now(),
    constraint task_operation_pkey PRIMARY KEY (id)
);
CREATE INDEX task_operation_task ON {schema}.task_operation USING btree (task_id);

create table {schema}.template (
    id integer not null generated always as identity,
    namespace_id integer not null,
    name text not null,
    version text not null,
    document text not null,
    max_duration_ms bigint,
    max_waiting_ms bigint,
    max_retry_ms bigint,
    max_in_process_ms bigint,
    staleness {schema}.staleness_action not null,
    created_at timestamp with time zone not null default now(),
    description text not null default ''::text,
    step_count integer not null default 0,
    constraint template_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint template_namespace_id_name_version_key UNIQUE (namespace_id, name, version),
    constraint template_pkey PRIMARY KEY (id)
);
CREATE INDEX template_listed ON {schema}.template USING btree (((namespace_id + 0)), name, id);

create table {schema}.write_batch (
    id uuid not null,
    outcomes text[] not null,
    committed_at timestamp with time zone not null default now(),
    constraint write_batch_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

CREATE OR REPLACE FUNCTION {schema}.activate_steps(of_task uuid, of_template integer, steps integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.advance_schedules(batch_id uuid, channels text[], payloads text[], patient boolean, ids uuid[], versions bigint[], froms timestamp with time zone[], nexts timestamp with time zone[], retries_ms bigint[], lasts timestamp with time zone[], last_tasks uuid[], last_errors text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.advance_tasks(tasks uuid[], done_tasks uuid[], done_slots integer[], changed_tasks uuid[], changes integer[])
 RETURNS TABLE(task_id uuid, state {schema}.task_state, readied boolean, watched boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.age_tasks(tasks uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.apply_result(of_task uuid, of_template integer, step integer, kind {schema}.step_kind, chosen integer[], inputs text[], OUT change integer, OUT done integer)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.await_task(task uuid, lasts_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.backoff_ms(kind {schema}.backoff_kind, base_ms integer, max_ms integer, attempt integer, jitter real)
 RETURNS bigint
 LANGUAGE sql
 PARALLEL SAFE;

CREATE OR REPLACE FUNCTION {schema}.change_namespace(of_name text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text, of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.claim_delivered(tasks uuid[], ordinals integer[], numbers bigint[], claim bigint, workers text[], leases_ms bigint[])
 RETURNS TABLE(verdicts text[], waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.claim_steps(namespaces text[], names text[], left_out text[], known bigint[], bounds_us bigint[], claim bigint, wants integer[], workers text[], leases_ms bigint[], in_write boolean)
 RETURNS TABLE(next_due_ms double precision, queues bigint[], reached_us bigint[], stocked boolean[], waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.claimable_ranges(whole boolean, namespace_ids integer[], names text[], left_out text[], OUT froms bigint[], OUT tos bigint[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.complete_steps(batch_id uuid, channels text[], payloads text[], patient boolean, reports {schema}.step_report[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.context_contains(context text, part text)
 RETURNS boolean
 LANGUAGE plpgsql
 IMMUTABLE;

CREATE OR REPLACE FUNCTION {schema}.decide(of_task uuid, of_template integer, decision integer, chosen integer[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.divide(of_task uuid, of_template integer, divided integer, inputs text[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.divide_claim(whole boolean, ids bigint[], firsts timestamp with time zone[], namespace_limits integer[], name_limits integer[], limited boolean, want integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.end_task(batch_id uuid, channels text[], payloads text[], patient boolean, of_task uuid, becomes text, allowed text[], operator text, reason text, preview boolean)
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.end_tasks(tasks uuid[], becomes {schema}.task_state)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.finish_batch(batch_id uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.first_due(whole boolean, froms bigint[], tos bigint[], known bigint[], bounds_us bigint[])
 RETURNS TABLE(id bigint, bound timestamp with time zone, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.flow_figures(top bigint, counted bigint)
 RETURNS TABLE(kind text, namespace text, state text, amount bigint, oldest double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.fork_task(new {schema}.new_task, of_task uuid, from_slot integer, from_part integer, before integer[], after integer[], new_input text, operator text, note text, max_steps integer, channels text[], payloads text[])
 RETURNS TABLE(outcome text, ready text[])
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.investigate(tasks uuid[], ordinals integer[], reasons text[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.limit_steps(of_namespace text, of_name text, of_max_running integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.live_namespace_queues(froms bigint[], tos bigint[])
 RETURNS TABLE(queue_id bigint, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.live_queues(froms bigint[], tos bigint[])
 RETURNS TABLE(queue_id bigint, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.load_claimed_steps(tasks uuid[], ordinals integer[], waiters integer[], leases_ms bigint[])
 RETURNS TABLE(waiter integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.lock_limits(limits integer[], in_write boolean)
 RETURNS boolean
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.note_ancestors(of_template integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.notify(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.notify_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.open_namespace(of_name text, of_template text, of_description text, of_announces boolean)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.open_queues(template integer, priority smallint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.operate_step(batch_id uuid, channels text[], payloads text[], patient boolean, operation {schema}.step_operation)
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.prune_tasks(most_tasks integer, most_rows integer)
 RETURNS TABLE(removed integer, more boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.public_state(of_task uuid)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.publish_events(ended {schema}.ended_step[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.publish_steps(of_namespace text, of_provider text, want integer, number bigint, lease_ms bigint)
 RETURNS TABLE(next_due_ms double precision, task_id uuid, ordinal integer, name text, priority smallint, attempt integer, again_ms double precision)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.put_namespace(of_name text, of_template text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text, of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.register_template(of_namespace text, of_name text, of_version text, of_document text, limits json, definitions json)
 RETURNS TABLE(id integer, namespace_id integer, same boolean, new boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.release_limits(tasks uuid[], slots integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.remove_tasks(tasks uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.renew_steps(batch_id uuid, channels text[], payloads text[], patient boolean, tasks uuid[], ordinals integer[], fences bigint[], leases_ms bigint[], checkpoints text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.resume_tasks(tasks uuid[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.revive_steps(of_task uuid, target integer, operator text, reason text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.submit_tasks(batch_id uuid, channels text[], payloads text[], patient boolean, tasks {schema}.new_task[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.suspend_tasks(failed_tasks uuid[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own';
