-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

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
    kind "char" not null generated always as (
CASE
    WHEN ("left"(work_item, 40) ~ '^\s*{\s*"(StartOrchestration|ContinueAsNew)"'::text) THEN 's'::"char"
    WHEN ("left"(work_item, 40) ~ '^\s*{\s*"QueueMessage"'::text) THEN 'q'::"char"
    ELSE 'm'::"char"
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
    lane text not null default ''::text,
    instance_id text not null,
    session_id text,
    work_item text not null,
    constraint worker_queue_pkey PRIMARY KEY (instance_id, id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=60, vacuum_truncate=off);
CREATE INDEX worker_queue_due ON {schema}.worker_queue USING btree (lane, visible_at);
CREATE INDEX worker_queue_session ON {schema}.worker_queue USING btree (session_id) WHERE (session_id IS NOT NULL);
CREATE TRIGGER trg_worker_notify AFTER INSERT OR UPDATE OF visible_at ON {schema}.worker_queue FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'reveille_own'::text)) EXECUTE FUNCTION {schema}.notify_by_trigger('{schema}_worker_work', '');

create table {schema}.write_batch (
    id uuid not null,
    outcomes text[] not null,
    committed_at timestamp with time zone not null default now(),
    constraint write_batch_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

CREATE OR REPLACE FUNCTION {schema}.abandon_instances(flight uuid, channels text[], payloads text[], patient boolean, instances text[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.abandon_work(flight uuid, channels text[], payloads text[], patient boolean, instances text[], ids bigint[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.ack_instances(patient boolean, instances text[], tokens uuid[], again boolean[], executions bigint[], first_events bigint[], last_events bigint[], event_counts integer[], events text[], names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[], status_changes boolean[], custom_statuses text[], work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[], work_sessions text[], work_items text[], cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[], message_turns integer[], message_instances text[], message_delays bigint[], message_items text[], clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[])
 RETURNS text[]
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.ack_work(patient boolean, instances text[], ids bigint[], tokens uuid[], again boolean[], receivers text[], items text[])
 RETURNS text[]
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.claim_instances(wanted integer, lease_ms bigint, min_version bigint, max_version bigint, bound_us bigint)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, instance_id text, lock_token uuid, attempt integer, messages text[], orchestration_name text, orchestration_version text, execution_id bigint, generation bigint, last_event_id bigint, had_executions boolean, blocked boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.claim_work(lanes text[], lease_ms bigint, owners text[], session_ms bigint[], ahead integer, bound_us bigint)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, seat integer, instance_id text, id bigint, lock_token uuid, attempt integer, work_item text)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.commit(flight uuid, channels text[], payloads text[], patient boolean, instances text[], tokens uuid[], again boolean[], executions bigint[], first_events bigint[], last_events bigint[], event_counts integer[], events text[], names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[], status_changes boolean[], custom_statuses text[], work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[], work_sessions text[], work_items text[], cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[], message_turns integer[], message_instances text[], message_delays bigint[], message_items text[], clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[], done_instances text[], done_ids bigint[], done_tokens uuid[], done_again boolean[], done_receivers text[], done_items text[], sent_instances text[], sent_delays bigint[], sent_items text[])
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

CREATE OR REPLACE FUNCTION {schema}.enqueue(instances text[], delays_ms bigint[], items text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.enqueue_work(flight uuid, channels text[], payloads text[], patient boolean, instances text[], executions bigint[], activities bigint[], lanes text[], sessions text[], items text[])
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

CREATE OR REPLACE FUNCTION {schema}.look_up(names text[], wants_events boolean[], known_executions bigint[], known_generations bigint[], known_last bigint[], seen_versions bigint[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off';

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
