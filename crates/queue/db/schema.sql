-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create type {schema}.acked_cursor as (
    problem text,
    partition_id bigint,
    consumer_id integer,
    version bigint,
    due_at timestamp with time zone,
    "position" bigint,
    lease_id uuid,
    lease_end bigint,
    last_lease uuid,
    retries integer,
    suspect_until bigint,
    consumer text,
    queue_id integer,
    retry_limit integer,
    retry_delay_ms integer,
    delayed_processing_seconds integer,
    window_buffer_seconds integer
);

create table {schema}.buffered (
    id bigint not null generated always as identity,
    queue text not null,
    partition text not null,
    message_id uuid not null,
    transaction_id text not null,
    trace_id text,
    producer text,
    payload bytea not null,
    encrypted boolean not null,
    created_at timestamp with time zone not null default now(),
    constraint buffered_pkey PRIMARY KEY (id)
);

create table {schema}.consumer (
    id integer not null generated always as identity,
    queue_id integer not null,
    name text not null,
    mode text not null,
    since timestamp with time zone,
    created_at timestamp with time zone not null default now(),
    paused_at timestamp with time zone,
    constraint consumer_mode_check CHECK ((mode = ANY (ARRAY['all'::text, 'new'::text, 'timestamp'::text]))),
    constraint consumer_pkey PRIMARY KEY (id),
    constraint consumer_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES {schema}.queue(id) ON DELETE CASCADE
);
CREATE INDEX consumer_by_name ON {schema}.consumer USING btree (md5(name));
CREATE UNIQUE INDEX consumer_name ON {schema}.consumer USING btree (queue_id, md5(name));

create table {schema}.cursor (
    partition_id bigint not null,
    consumer_id integer not null,
    version bigint not null default 0,
    due_at timestamp with time zone not null,
    "position" bigint not null,
    lease_id uuid,
    lease_end bigint,
    last_lease uuid,
    retries integer not null default 0,
    read_at timestamp with time zone,
    suspect_until bigint not null default 0,
    lease_is_single boolean not null default false,
    constraint cursor_pkey PRIMARY KEY (partition_id, consumer_id, version)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, fillfactor=70, vacuum_truncate=off);
CREATE INDEX cursor_due ON {schema}.cursor USING btree (consumer_id, due_at) WHERE (due_at < 'infinity'::timestamp with time zone);
CREATE INDEX cursor_lease ON {schema}.cursor USING btree (lease_id) WHERE (lease_id IS NOT NULL);

create table {schema}.dead_letter (
    id bigint not null generated always as identity,
    queue_id integer not null,
    partition_id bigint not null,
    consumer text not null,
    message_offset bigint not null,
    message_id uuid not null,
    transaction_id text not null,
    trace_id text,
    producer text,
    encrypted boolean not null,
    payload bytea not null,
    error text,
    retries integer not null,
    created_at timestamp with time zone not null,
    failed_at timestamp with time zone not null default now(),
    constraint dead_letter_pkey PRIMARY KEY (id),
    constraint dead_letter_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES {schema}.queue(id) ON DELETE CASCADE
);
CREATE INDEX dead_letter_partition ON {schema}.dead_letter USING btree (partition_id);
CREATE INDEX dead_letter_queue ON {schema}.dead_letter USING btree (queue_id, id);

create table {schema}.maintenance (
    name text not null,
    enabled boolean not null,
    constraint maintenance_name_check CHECK ((name = ANY (ARRAY['push'::text, 'pop'::text]))),
    constraint maintenance_pkey PRIMARY KEY (name)
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

create table {schema}.partition (
    id bigint not null generated always as identity,
    queue_id integer not null,
    name text not null,
    first_offset bigint not null default 0,
    created_at timestamp with time zone not null default now(),
    constraint partition_pkey PRIMARY KEY (id),
    constraint partition_queue_id_fkey FOREIGN KEY (queue_id) REFERENCES {schema}.queue(id) ON DELETE CASCADE
);
CREATE UNIQUE INDEX partition_name ON {schema}.partition USING btree (queue_id, md5(name));

create table {schema}.queue (
    id integer not null generated always as identity,
    name text not null,
    namespace text not null default ''::text,
    task text not null default ''::text,
    lease_seconds integer not null default 300,
    retry_limit integer not null default 3,
    retry_delay_ms integer,
    max_size bigint not null default 0,
    ttl_seconds integer,
    dead_letter_queue boolean not null default false,
    dlq_after_max_retries boolean not null default false,
    priority integer not null default 0,
    delayed_processing_seconds integer not null default 0,
    window_buffer_seconds integer not null default 0,
    retention_seconds integer not null default 0,
    completed_retention_seconds integer not null default 0,
    retention_enabled boolean not null default false,
    consumed_retention_seconds integer not null default 86400,
    encryption_enabled boolean not null default false,
    max_wait_time_seconds integer not null default 0,
    charge_expired_leases boolean not null default true,
    revision integer not null default 0,
    created_at timestamp with time zone not null default now(),
    paused_at timestamp with time zone,
    constraint queue_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX queue_name ON {schema}.queue USING btree (md5(name));
CREATE INDEX queue_namespace ON {schema}.queue USING btree (md5(namespace));
CREATE INDEX queue_task ON {schema}.queue USING btree (md5(task));

create table {schema}.removed_partition (
    partition_id bigint not null,
    constraint removed_partition_pkey PRIMARY KEY (partition_id)
);

create table {schema}.segment (
    partition_id bigint not null,
    first_offset bigint not null,
    next_offset bigint not null,
    created_at timestamp with time zone not null,
    encrypted boolean not null,
    hashes bigint[] not null,
    ids uuid[] not null,
    transaction_ids text[] storage external not null,
    trace_ids text[] storage external,
    producers text[] storage external,
    payloads bytea[] storage external not null,
    constraint segment_pkey PRIMARY KEY (partition_id, first_offset)
) with (autovacuum_vacuum_insert_scale_factor=0.1, toast_tuple_target=8160);

create table {schema}.trace (
    id bigint not null generated always as identity,
    partition_id bigint not null,
    transaction_id text not null,
    consumer text not null,
    event_type text not null,
    data text not null,
    worker text,
    names text[] not null,
    created_at timestamp with time zone not null default now(),
    constraint trace_partition_id_fkey FOREIGN KEY (partition_id) REFERENCES {schema}.partition(id) ON DELETE CASCADE,
    constraint trace_pkey PRIMARY KEY (id)
);
CREATE INDEX trace_message ON {schema}.trace USING btree (partition_id, md5(transaction_id));

create table {schema}.trace_name (
    name text not null,
    trace_id bigint not null,
    constraint trace_name_trace_id_fkey FOREIGN KEY (trace_id) REFERENCES {schema}.trace(id) ON DELETE CASCADE
);
CREATE INDEX trace_name_name ON {schema}.trace_name USING btree (md5(name), trace_id);
CREATE INDEX trace_name_trace ON {schema}.trace_name USING btree (trace_id);

create table {schema}.write_batch (
    id uuid not null,
    outcomes text[] not null,
    committed_at timestamp with time zone not null default now(),
    constraint write_batch_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

CREATE OR REPLACE FUNCTION {schema}.ack(batch_id uuid, channels text[], payloads text[], patient boolean, partitions bigint[], group_names text[], lease_ids uuid[], last_messages integer[], hashes bigint[], statuses text[], errors text[])
 RETURNS TABLE(status text, has_more boolean, consumer text, messages text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.ack_leases(batch_id uuid, channels text[], payloads text[], patient boolean, partitions bigint[], lease_ids uuid[])
 RETURNS TABLE(number integer, has_more boolean, backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.add_dead_letter(queue_id integer, partition_id bigint, consumer text, message_offset bigint, error text, retries integer)
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.buffer_messages(queue text, partition text, encrypted boolean, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], bodies bytea[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.claim(source_queue text, source_partition text, group_name text, start_mode text, start_at timestamp with time zone, waited_ms bigint, lease_ids uuid[], lease_times_ms bigint[], max_messages integer[], max_partitions integer[], max_bytes integer, bound_us bigint, in_write boolean)
 RETURNS TABLE(waiter integer, lease_ms bigint, due_us bigint, partition_id bigint, partition_name text, first_offset bigint, created_at timestamp with time zone, encrypted boolean, retries integer, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[], next_due_ms double precision, dead_lettered integer, now_us bigint)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.configure(change {schema}.queue, default_namespace text, default_task text)
 RETURNS SETOF {schema}.queue
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.delete_removed(max_rows integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off';

CREATE OR REPLACE FUNCTION {schema}.due_after(partition_id bigint, "position" bigint, delayed_seconds integer, window_seconds integer)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.evict(partitions bigint[], consumers integer[])
 RETURNS TABLE(queue text, consumer text, messages bigint, due boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.expire_lease(own_consumer_id integer, partition_id bigint)
 RETURNS {schema}.cursor
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.extend_lease(lease uuid, lease_ms bigint)
 RETURNS TABLE(partition_id bigint, expires_at timestamp with time zone)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.figures(top bigint, counted bigint)
 RETURNS TABLE(kind text, queue text, consumer text, sources bigint, partitions bigint, waiting bigint, dead_letters bigint, oldest double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off';

CREATE OR REPLACE FUNCTION {schema}.find_offsets(partition_id bigint, from_offset bigint, to_offset bigint, hashes bigint[])
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
 SET enable_nestloop TO 'off';

CREATE OR REPLACE FUNCTION {schema}.finish_batch(batch_id uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.first_undeleted(partition_id bigint, from_offset bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.full_queues(partitions bigint[])
 RETURNS integer[]
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.lease_partitions(own_consumer_id integer, source_id integer, source_partition text, lease_ids uuid[], lease_times_ms bigint[], max_messages integer[], max_bytes integer, overhead bigint, waiters integer[], bound timestamp with time zone, as_of timestamp with time zone)
 RETURNS TABLE(waiter integer, lease_ms bigint, due_us bigint, partition_id bigint, partition_name text, first_offset bigint, created_at timestamp with time zone, encrypted boolean, retries integer, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[], next_due_ms double precision, dead_lettered integer, now_us bigint)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.lock_acked_cursor(partition_id bigint, group_name text, lease_id uuid, patient boolean)
 RETURNS {schema}.acked_cursor
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.message_counts(queue_id integer)
 RETURNS TABLE(partitions bigint, total bigint, unfinished bigint, processing bigint)
 LANGUAGE sql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.notify(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.notify_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.offset_at(partition_id bigint, since timestamp with time zone, head bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE;

CREATE OR REPLACE FUNCTION {schema}.open_partitions(queues text[], partitions text[], namespaces text[], tasks text[])
 RETURNS TABLE(number integer, partition_id bigint, namespace text, task text, encrypted boolean, revision integer, is_new boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.postpone(own_consumer_id integer, partitions bigint[], delayed_seconds integer, window_seconds integer)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql;

CREATE OR REPLACE FUNCTION {schema}.push(batch_id uuid, channels text[], payloads text[], patient boolean, partitions bigint[], cached_until bigint[], revisions integer[], last_segments integer[], segment_ends integer[], ids uuid[], transaction_ids text[], hashes bigint[], bodies bytea[], trace_ids text[], producers text[], ignore_max_size boolean)
 RETURNS TABLE(number integer, status text, appended_from bigint, new_hashes bigint[], new_hashes_from bigint, retained_from bigint, backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.release_leases(lease_ids uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET jit TO 'off'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.remove_queue(queue text)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}.seek(partitions bigint[], group_name text, target text, since timestamp with time zone)
 RETURNS TABLE(partition_id bigint, consumer text, due boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';

CREATE OR REPLACE FUNCTION {schema}.subscribe(queue_id integer, group_name text, mode text, since timestamp with time zone, waited_ms bigint)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own';

CREATE OR REPLACE FUNCTION {schema}."trim"(partitions bigint[], end_offsets bigint[], max_segments integer, patient boolean)
 RETURNS TABLE(partition_id bigint, messages bigint, more boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off';

CREATE OR REPLACE FUNCTION {schema}.unsubscribe(consumer_id integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off';
