-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create type {schema}.finished_activities as (
    instance_ids text[],
    ids bigint[],
    lock_tokens uuid[],
    repeated boolean[],
    receivers text[],
    work_items text[]
);

create type {schema}.finished_turns as (
    instance_ids text[],
    lock_tokens uuid[],
    repeated boolean[],
    execution_ids bigint[],
    first_event_ids bigint[],
    last_event_ids bigint[],
    event_counts integer[],
    events text[],
    orchestration_names text[],
    orchestration_versions text[],
    parent_instance_ids text[],
    pinned_versions bigint[],
    statuses text[],
    outputs text[],
    changes_custom_status boolean[],
    custom_statuses text[],
    clears_keys boolean[]
);

create type {schema}.orchestration_messages as (
    instance_ids text[],
    delays_ms bigint[],
    work_items text[]
);

create type {schema}.turn_activities as (
    turns integer[],
    instance_ids text[],
    execution_ids bigint[],
    activity_ids bigint[],
    tag_queues text[],
    session_ids text[],
    work_items text[]
);

create type {schema}.turn_cancellations as (
    turns integer[],
    instance_ids text[],
    execution_ids bigint[],
    activity_ids bigint[]
);

create type {schema}.turn_key_changes as (
    turns integer[],
    instance_ids text[],
    keys text[],
    "values" text[],
    last_updated_at_ms bigint[]
);

create type {schema}.turn_messages as (
    turns integer[],
    instance_ids text[],
    delays_ms bigint[],
    work_items text[]
);

create sequence {schema}.generation as bigint increment 1 minvalue 1 maxvalue 9223372036854775807 start 1 cache 1;

create table {schema}.executions (
    instance_id text not null,
    execution_id bigint not null,
    status text not null default 'Running'::text,
    event_count bigint,
    started_at timestamp with time zone not null default now(),
    completed_at timestamp with time zone,
    output text,
    constraint executions_pkey PRIMARY KEY (instance_id, execution_id)
) with (fillfactor=80);
CREATE INDEX executions_ended ON {schema}.executions USING btree (completed_at) WHERE ((completed_at IS NOT NULL) AND (status <> 'ContinuedAsNew'::text));

create table {schema}.history (
    instance_id text not null,
    execution_id bigint not null,
    event_id bigint not null,
    last_event_id bigint not null,
    event_count integer not null,
    events text storage main not null,
    constraint history_pkey PRIMARY KEY (instance_id, execution_id, event_id)
) with (autovacuum_vacuum_insert_scale_factor=0.05, toast_tuple_target=256);
CREATE TRIGGER history_deleted AFTER DELETE ON {schema}.history REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION {schema}.history_changed();
CREATE TRIGGER history_truncated AFTER TRUNCATE ON {schema}.history FOR EACH STATEMENT EXECUTE FUNCTION {schema}.history_changed();
CREATE TRIGGER history_updated AFTER UPDATE ON {schema}.history REFERENCING OLD TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION {schema}.history_changed();

create table {schema}.instance_locks (
    instance_id text not null,
    lock_token uuid not null,
    locked_until timestamp with time zone not null,
    message_ids bigint[] not null,
    constraint instance_locks_pkey PRIMARY KEY (instance_id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, fillfactor=70, vacuum_truncate=off);

create table {schema}.instances (
    instance_id text not null,
    orchestration_name text not null,
    orchestration_version text,
    parent_instance_id text,
    current_execution_id bigint not null,
    status text not null default 'Running'::text,
    pinned_version bigint,
    generation bigint not null default nextval('{schema}.generation'::regclass),
    custom_status_version bigint not null default 0,
    created_at timestamp with time zone not null default now(),
    updated_at timestamp with time zone not null default now(),
    custom_status text,
    constraint instances_pkey PRIMARY KEY (instance_id)
) with (fillfactor=70);
CREATE INDEX instances_created ON {schema}.instances USING btree (created_at, instance_id);
CREATE INDEX instances_parent ON {schema}.instances USING btree (parent_instance_id) WHERE (parent_instance_id IS NOT NULL);

create table {schema}.kv_delta (
    instance_id text not null,
    key text not null,
    value text,
    last_updated_at_ms bigint not null,
    constraint kv_delta_pkey PRIMARY KEY (instance_id, key)
);

create table {schema}.kv_store (
    instance_id text not null,
    key text not null,
    value text not null,
    last_updated_at_ms bigint not null,
    constraint kv_store_pkey PRIMARY KEY (instance_id, key)
);

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

create table {schema}.orchestrator_queue (
    id bigint not null generated always as identity,
    instance_id text not null,
    visible_at timestamp with time zone not null default now(),
    attempt_count integer not null default 0,
    kind text not null generated always as (
CASE
    WHEN ("left"(work_item, 40) ~ '^\s*{\s*"(StartOrchestration|ContinueAsNew)"'::text) THEN 'start'::text
    WHEN ("left"(work_item, 40) ~ '^\s*{\s*"QueueMessage"'::text) THEN 'queue_message'::text
    ELSE 'message'::text
END) stored,
    work_item text not null,
    constraint orchestrator_queue_pkey PRIMARY KEY (instance_id, visible_at, id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);
CREATE INDEX orchestrator_queue_due ON {schema}.orchestrator_queue USING btree (visible_at);
CREATE TRIGGER trg_orch_notify AFTER INSERT OR UPDATE OF visible_at ON {schema}.orchestrator_queue FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'reveille_own'::text)) EXECUTE FUNCTION {schema}.notify_by_trigger('{schema}_orch_work', '0');

create table {schema}.sessions (
    session_id text not null,
    worker_id text not null,
    locked_until timestamp with time zone not null,
    last_activity_at timestamp with time zone not null,
    constraint sessions_pkey PRIMARY KEY (session_id)
) with (fillfactor=70);
CREATE INDEX sessions_worker ON {schema}.sessions USING btree (worker_id);

create table {schema}.worker_queue (
    id bigint not null generated always as identity,
    visible_at timestamp with time zone not null default now(),
    locked_until timestamp with time zone,
    lock_token uuid,
    execution_id bigint not null,
    activity_id bigint not null,
    attempt_count integer not null default 0,
    tag_queue text not null default ''::text,
    instance_id text not null,
    session_id text,
    work_item text not null,
    constraint worker_queue_pkey PRIMARY KEY (instance_id, id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=60, vacuum_truncate=off);
CREATE INDEX worker_queue_due ON {schema}.worker_queue USING btree (tag_queue, visible_at);
CREATE INDEX worker_queue_session ON {schema}.worker_queue USING btree (session_id) WHERE (session_id IS NOT NULL);
CREATE TRIGGER trg_worker_notify AFTER INSERT OR UPDATE OF visible_at ON {schema}.worker_queue FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'reveille_own'::text)) EXECUTE FUNCTION {schema}.notify_by_trigger('{schema}_worker_work', '');

create table {schema}.write_batch (
    id uuid not null,
    outcomes text[] not null,
    committed_at timestamp with time zone not null default now(),
    constraint write_batch_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

CREATE OR REPLACE FUNCTION {schema}.abandon_instances(batch_id uuid, channels text[], payloads text[], patient boolean, instances text[], tokens uuid[], repeated boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.abandon_work(batch_id uuid, channels text[], payloads text[], patient boolean, instances text[], ids bigint[], tokens uuid[], repeated boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.ack_instances(patient boolean, turns {schema}.finished_turns, activities {schema}.turn_activities, cancellations {schema}.turn_cancellations, messages {schema}.turn_messages, key_changes {schema}.turn_key_changes)
 RETURNS text[]
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.ack_work(patient boolean, finished {schema}.finished_activities)
 RETURNS text[]
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.claim_instances(lock_tokens uuid[], lease_ms bigint, min_version bigint, max_version bigint, bound_us bigint, in_write boolean)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, instance_id text, lock_token uuid, attempt integer, messages text[], orchestration_name text, orchestration_version text, execution_id bigint, generation bigint, last_event_id bigint, had_executions boolean, blocked boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.claim_work(tag_queues text[], lease_ms bigint, lock_tokens uuid[], owners text[], session_ms bigint[], bound_us bigint, in_write boolean)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, waiter integer, instance_id text, id bigint, lock_token uuid, attempt integer, work_item text)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.commit(batch_id uuid, channels text[], payloads text[], patient boolean, turns {schema}.finished_turns, activities {schema}.turn_activities, cancellations {schema}.turn_cancellations, turn_messages {schema}.turn_messages, key_changes {schema}.turn_key_changes, finished_activities {schema}.finished_activities, messages {schema}.orchestration_messages)
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.delete_instances(ids text[], force boolean, OUT problem text, OUT subject text, OUT instances bigint, OUT executions bigint, OUT events bigint, OUT messages bigint)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.enqueue(messages {schema}.orchestration_messages)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.enqueue_work(batch_id uuid, channels text[], payloads text[], patient boolean, instances text[], executions bigint[], activities bigint[], tag_queues text[], sessions text[], work_items text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.events(instance text)
 RETURNS TABLE(execution_id bigint, event_id bigint, event_type text, event json)
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.finish_batch(batch_id uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.history_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.notify(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.notify_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.prune_executions(ids text[], keep_last bigint, before_ms bigint, OUT instances bigint, OUT executions bigint, OUT events bigint)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.read_instances(instances text[], want_events boolean[], cached_executions bigint[], cached_generations bigint[], cached_last_events bigint[], seen_versions bigint[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';
