-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

create table {schema}.ancestry (
    template_id integer not null,
    ordinal integer not null,
    before int4multirange not null,
    constraint ancestry_pkey PRIMARY KEY (template_id, ordinal),
    constraint ancestry_template_id_fkey FOREIGN KEY (template_id) REFERENCES {schema}.template(id) ON DELETE CASCADE
);

create table {schema}.attempt (
    task_id uuid not null,
    ordinal integer not null,
    fence bigint not null,
    attempt integer not null,
    outcome "char" not null,
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
    kind "char" not null,
    parents integer[] not null,
    children integer[] not null,
    absent boolean not null,
    callable text not null,
    initialization text not null,
    max_attempts integer not null,
    backoff "char" not null,
    backoff_base_ms integer not null,
    max_backoff_ms integer not null,
    jitter real not null,
    timeout_ms bigint,
    failure_strategy "char",
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

create table {schema}.flight (
    id uuid not null,
    outcomes text[] not null,
    landed_at timestamp with time zone not null default now(),
    constraint flight_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

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
    mode "char" not null default 'e'::"char",
    poll_ms integer not null default 1000,
    fallback boolean not null default true,
    provider "char" not null default 't'::"char",
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
    mode "char" not null,
    poll_ms integer not null,
    fallback boolean not null,
    provider "char" not null,
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
    missed "char" not null,
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
    lane_id bigint not null,
    state "char" not null,
    waiting integer not null,
    due_at timestamp with time zone not null default 'infinity'::timestamp with time zone,
    came_at timestamp with time zone,
    ready_at timestamp with time zone,
    since timestamp with time zone not null default now(),
    fence bigint not null default 0,
    attempt integer not null default 0,
    worker text,
    published bigint,
    queue_id bigint not null generated always as ((lane_id & '-1099511562241'::bigint)) stored,
    constraint step_pkey PRIMARY KEY (task_id, ordinal)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=70, vacuum_truncate=off);
CREATE INDEX step_due ON {schema}.step USING btree (queue_id, due_at) WHERE (due_at < 'infinity'::timestamp with time zone);
CREATE INDEX step_lane_due ON {schema}.step USING btree (lane_id, due_at) WHERE (due_at < 'infinity'::timestamp with time zone);

create table {schema}.step_data (
    task_id uuid not null,
    ordinal integer not null,
    input text,
    checkpoint text,
    constraint step_data_pkey PRIMARY KEY (task_id, ordinal)
);

create table {schema}.step_lane (
    id bigint not null,
    namespace_id integer not null,
    name text not null,
    priority smallint not null,
    space_limit_id integer,
    name_limit_id integer,
    constraint step_lane_name_limit_id_fkey FOREIGN KEY (name_limit_id) REFERENCES {schema}.step_limit(id),
    constraint step_lane_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint step_lane_namespace_id_name_priority_key UNIQUE (namespace_id, name, priority),
    constraint step_lane_pkey PRIMARY KEY (id),
    constraint step_lane_space_limit_id_fkey FOREIGN KEY (space_limit_id) REFERENCES {schema}.step_limit(id)
);

create table {schema}.step_limit (
    id integer not null generated always as identity,
    namespace_id integer not null,
    name text not null,
    most integer not null,
    running integer not null,
    constraint step_limit_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint step_limit_namespace_id_name_key UNIQUE (namespace_id, name),
    constraint step_limit_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0.02, fillfactor=50);

create table {schema}.task (
    id uuid not null,
    namespace_id integer not null,
    template_id integer not null,
    state "char" not null,
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
    operation "char" not null,
    state_before "char" not null,
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
    staleness "char" not null,
    created_at timestamp with time zone not null default now(),
    description text not null default ''::text,
    step_count integer not null default 0,
    constraint template_namespace_id_fkey FOREIGN KEY (namespace_id) REFERENCES {schema}.namespace(id),
    constraint template_namespace_id_name_version_key UNIQUE (namespace_id, name, version),
    constraint template_pkey PRIMARY KEY (id)
);
CREATE INDEX template_listed ON {schema}.template USING btree (((namespace_id + 0)), name, id);

CREATE OR REPLACE FUNCTION {schema}.advance_schedules(flight uuid, channels text[], payloads text[], patient boolean, ids uuid[], versions bigint[], froms timestamp with time zone[], nexts timestamp with time zone[], retries_ms bigint[], lasts timestamp with time zone[], last_tasks uuid[], last_errors text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    held uuid[];
begin
    perform from {schema}.schedule s where s.id = any (ids) order by s.id for update;

    held := array(
        select s.id from unnest(ids, versions, froms) as n (id, version, from_at)
        join {schema}.schedule s on s.id = n.id and s.version = n.version and s.next_at = n.from_at);

    update {schema}.schedule s
    set next_at = case when s.id = any (held) then coalesce(n.next_at, 'infinity') else s.next_at end,
        due_at = case when s.id = any (held) then coalesce(now() + n.retry_ms * interval '1 ms', n.next_at, 'infinity') else s.due_at end,
        last_at = case when n.newest then n.last_at else s.last_at end,
        last_task = case when n.newest then coalesce(n.task_id, s.last_task) else s.last_task end,
        last_error = case when n.newest then n.error else s.last_error end
    from (select n.*, n.last_at >= coalesce(o.last_at, n.last_at) as newest
          from unnest(ids, nexts, retries_ms, lasts, last_tasks, last_errors) as n (id, next_at, retry_ms, last_at, task_id, error)
          join {schema}.schedule o on o.id = n.id) n
    where s.id = n.id and (n.newest or s.id = any (held));

    outcomes := array(
        select case when n.id = any (held) then 'o' || coalesce((
                   select greatest(extract(epoch from s.due_at - now()) * 1000, 0)::bigint::text from {schema}.schedule s where s.id = n.id and s.due_at < 'infinity'), '')
               else 'l' end
        from unnest(ids) with ordinality as n (id, place) order by n.place);
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.advance_tasks(tasks uuid[], ended_tasks uuid[], ended_slots integer[], changed_tasks uuid[], changes integer[])
 RETURNS TABLE(task_id uuid, state "char", readied boolean, watched boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    ready uuid[];
begin
    with counted as materialized (
        select e.task_id, c.ordinal, count(*)::integer as parents, bool_and(t.failed = 0) as goes_on
        from unnest(ended_tasks, ended_slots) as e (task_id, slot)
        join {schema}.task t on t.id = e.task_id
        cross join lateral (select d.children from {schema}.definition d where d.template_id = t.template_id and d.ordinal = e.slot offset 0) d
        cross join lateral unnest(d.children) as c (ordinal)
        group by e.task_id, c.ordinal
    ), moved as (
        update {schema}.step s
        set waiting = s.waiting - n.parents,
            state = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then 'r' else s.state end,
            due_at = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.due_at end,
            ready_at = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.ready_at end,
            since = case when s.state = 'p' and s.waiting = n.parents and n.goes_on then now() else s.since end
        from counted n
        where s.task_id = n.task_id and s.ordinal = n.ordinal and s.state in ('p', 'a')
        returning s.task_id, s.state
    )
    select coalesce(array_agg(distinct m.task_id) filter (where m.state = 'r'), '{}') into ready from moved m;

    return query
    update {schema}.task t
    set unfinished = t.unfinished + n.change, updated_at = now(),
        state = case when n.over then n.becomes else t.state end,
        due_at = case when n.over then 'infinity' else t.due_at end,
        ended_at = case when n.over then now() else t.ended_at end
    from (
        select k.id, c.change, k.state = 'o' and (e.complete or e.failed) as over, case when e.complete then 'c' else 'e' end::"char" as becomes
        -- Added up, not joined: a join of two arrays takes their product.
        from (select c.task_id, sum(c.change)::integer as change
              from (select c.task_id, c.change from unnest(changed_tasks, changes) as c (task_id, change) union all select n.id, 0 from unnest(tasks) as n (id)) c
              group by c.task_id) c
        join {schema}.task k on k.id = c.task_id
        cross join lateral (
            select k.unfinished + c.change = 0 as complete,
                   -- What was due when something failed is not any more, so nobody can begin with a step that is not seen here.
                   k.failed > 0 and not exists (select from {schema}.step s where s.task_id = k.id and s.state = 'i') as failed
        ) e
    ) n
    where t.id = n.id
    returning t.id, t.state, t.id = any (ready), coalesce(t.watched_until > now(), false) or t.state <> 'o' and coalesce(t.awaited_until > now(), false);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.age_plans()
 RETURNS void
 LANGUAGE plpgsql
AS $function$
declare
    seconds    float8 := extract(epoch from clock_timestamp());
    good_until float8 := nullif(current_setting('reveille.plans_good_until', true), '');
    -- The schema, and of each of its tables how often its size doubles.
    made_for   text := current_setting('reveille.plans_made_for', true);
    own        text;
    tables     oid[];
begin
    if good_until between seconds and seconds + 10 then
        return;
    end if;
    perform set_config('reveille.plans_good_until', (seconds + 10)::text, false);
    if good_until is null then
        return;
    end if;
    own := (select t.typnamespace::text from pg_type t where t.oid = pg_typeof(null::{schema}.flight));
    if split_part(made_for, ' ', 1) = own then
        tables := array(select split_part(k.known, ':', 1)::oid from unnest((string_to_array(made_for, ' '))[2:]) as k (known));
    else
        tables := array(select c.oid from pg_class c where c.relnamespace = own::oid and c.relkind = 'r');
    end if;
    own := own || ' ' || array_to_string(array(
        select o.id || ':' || floor(ln(1 + coalesce(pg_relation_size(o.id), 0)::float8 / 8192) / ln(2::float8)) from unnest(tables) as o (id) order by o.id), ' ');
    if own is distinct from made_for then
        perform set_config('reveille.plans_made_for', own, false);
        execute 'discard plans';
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.age_tasks(tasks uuid[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
declare
    one   record;
    late  text;
    ended uuid[] := '{}';
begin
    perform from {schema}.task t where t.id = any (tasks) order by t.id for update;
    for one in
        select t.id, coalesce(t.resumed_at, t.created_at) + p.max_duration_ms * interval '1 ms' as all_over, p.staleness, greatest(t.watched_until, t.awaited_until) > now() as watched,
               case when s.running is not null then greatest(t.updated_at, s.running) + p.max_in_process_ms * interval '1 ms'
                    when s.ready then null
                    when s.pausing then t.updated_at + p.max_retry_ms * interval '1 ms'
                    else t.updated_at + p.max_waiting_ms * interval '1 ms' end as state_over,
               case when s.running is not null then 'steps_in_process' when s.pausing then 'waiting_for_retry' else 'waiting_for_dependencies' end as standing,
               now() + least(p.max_waiting_ms, p.max_retry_ms, p.max_in_process_ms) * interval '1 ms' as again
        from {schema}.task t
        join {schema}.template p on p.id = t.template_id
        cross join lateral (
            select min(s.since) filter (where s.state = 'i') as running, coalesce(bool_or(s.state = 'r'), false) as ready, coalesce(bool_or(s.state = 'w'), false) as pausing
            from {schema}.step s where s.task_id = t.id and s.state in ('i', 'r', 'w')
        ) s
        where t.id = any (tasks) and t.state = 'o' and t.due_at <= now()
        order by t.id
    loop
        late := case when one.all_over <= now() then 'max_duration' when one.state_over <= now() then 'too_long_' || one.standing end;
        if late is null then
            update {schema}.task t set due_at = coalesce(least(one.all_over, one.state_over, one.again), 'infinity') where t.id = one.id;
            continue;
        end if;
        if one.staleness in ('d', 'a') then
            perform {schema}.investigate(array[one.id], array[null::integer], array[late]);
        end if;
        if one.staleness = 'a' then
            update {schema}.task t set due_at = 'infinity' where t.id = one.id;
        else
            ended := ended || one.id;
            if one.watched then
                perform {schema}.ring(array['{schema}_flow_watch'], array[one.id::text]);
            end if;
        end if;
    end loop;
    if ended <> '{}' then
        perform {schema}.end_tasks(ended, 'e');
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.appear(of_task uuid, of_template integer, steps integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    front integer[] := steps;
begin
    while front <> '{}' loop
        update {schema}.step s set state = 'p', came_at = now(), since = now() where s.task_id = of_task and s.ordinal = any (front) and s.state = 'a';
        front := array(
            select distinct k.ordinal
            from {schema}.definition d cross join unnest(d.children) as c (ordinal)
            cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
            cross join lateral (select from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state = 'a' offset 0) s
            where d.template_id = of_template and d.ordinal = any (front) and k.kind <> 'w'
              and (k.kind = 'c' or not exists (
                  select from unnest(k.parents) as p (ordinal)
                  cross join lateral (select o.state from {schema}.step o where o.task_id = of_task and o.ordinal = p.ordinal offset 0) o
                  cross join lateral (select f.kind from {schema}.definition f where f.template_id = of_template and f.ordinal = p.ordinal offset 0) f
                  where o.state in ('a', 's') or f.kind = 'd')));
    end loop;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.await_task(task uuid, lasts_ms bigint)
 RETURNS text
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
declare
    wanted  timestamptz := now() + lasts_ms * interval '1 ms';
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    perform {schema}.age_plans();
    begin
        ignored := set_config('lock_timeout', '200ms', true);
        update {schema}.task t set awaited_until = now() + 2 * lasts_ms * interval '1 ms'
        where t.id = task and t.state = 'o' and coalesce(t.awaited_until, '-infinity') < wanted;
    exception when lock_not_available then
        null;
    end;
    return (select case when t.state <> 'o' then 'e' when t.awaited_until >= wanted then 'm' else 'l' end from {schema}.task t where t.id = task);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.backoff_ms(kind "char", base_ms integer, max_ms integer, attempt integer, jitter real)
 RETURNS bigint
 LANGUAGE sql
 PARALLEL SAFE
AS $function$
    select greatest(0, least(max_ms, floor(base_ms * case kind
        when 'n' then 0
        when 'l' then attempt
        when 'e' then power(2::float8, least(attempt - 1, 62))
        -- Binet's formula: exact as far as it is rounded, and beyond that the limit counts.
        else round(power((1 + sqrt(5::float8)) / 2, least(attempt, 90)) / sqrt(5::float8)) end)
        * case when jitter > 0 then 1 + jitter * (2 * random() - 1) else 1 end))::bigint
$function$;

CREATE OR REPLACE FUNCTION {schema}.change_namespace(of_name text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text, of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    mine record;
begin
    select n.id, n.provider into mine from {schema}.namespace n where n.name = of_name for no key update;
    update {schema}.namespace n
    set description = coalesce(of_description, n.description), mode = coalesce(of_mode::"char", n.mode), poll_ms = coalesce(of_poll_ms, n.poll_ms), fallback = coalesce(of_fallback, n.fallback),
        provider = coalesce(of_provider::"char", n.provider), announces = coalesce(of_announces, n.announces),
        retention_s = nullif(coalesce(of_retention_s, n.retention_s), -1), failed_retention_s = nullif(coalesce(of_failed_retention_s, n.failed_retention_s), -1),
        version = n.version + 1
    where n.id = mine.id;
    if of_provider::"char" <> mine.provider then
        perform from {schema}.step s
        where s.lane_id >= mine.id::bigint << 40 and s.lane_id < mine.id + 1::bigint << 40 and s.due_at < 'infinity'
            and s.published is not null and s.state = 'r'
        order by s.task_id, s.ordinal for update;
        update {schema}.step s set due_at = now(), published = null
        where s.lane_id >= mine.id::bigint << 40 and s.lane_id < mine.id + 1::bigint << 40 and s.due_at < 'infinity'
            and s.published is not null and s.state = 'r';
        perform {schema}.ring(array['{schema}_flow'], array['']);
    end if;
    perform {schema}.ring(array['{schema}_flow_namespaces'], array['']);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.claim_delivered(tasks uuid[], ordinals integer[], numbers bigint[], claim bigint, workers text[], leases_ms bigint[])
 RETURNS TABLE(verdicts text, seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    limited integer[];
    mine    record;
    verdict text;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- What is claimed.
    claimed       uuid[] := '{}';
    claimed_steps integer[] := '{}';
    seats         integer[] := '{}';
begin
    -- Whoever makes a limit counts what is under way: before this, or after it.
    lock table {schema}.step in row exclusive mode;
    verdicts := '';
    limited := array(
        select distinct x.id
        from unnest(tasks, ordinals) as n (task_id, ordinal)
        cross join lateral (select s.lane_id from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal offset 0) s
        join {schema}.step_lane l on l.id = s.lane_id
        cross join unnest(array[l.space_limit_id, l.name_limit_id]) as x (id)
        where x.id is not null);
    if limited <> '{}' then
        perform from {schema}.step_limit m where m.id = any (limited) order by m.id for update;
    end if;

    for place in 1 .. cardinality(tasks) loop
        select s.published, s.state, s.due_at, s.slot, l.space_limit_id, l.name_limit_id into mine
        from {schema}.step s join {schema}.step_lane l on l.id = s.lane_id
        where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update of s skip locked;
        if not found then
            verdict := case when exists (select from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] and s.published = numbers[place]) then 'b' else 's' end;
        elsif mine.published is distinct from numbers[place] or mine.state <> 'r' or mine.due_at = 'infinity' then
            verdict := 's';
        elsif not array_remove(array[mine.space_limit_id, mine.name_limit_id], null) <@ limited then
            -- The limit is newer than the look at it.
            verdict := 'b';
        elsif exists (select from {schema}.step_limit m where m.id in (mine.space_limit_id, mine.name_limit_id) and m.running >= m.most) then
            verdict := 'f';
        else
            verdict := 'c';
            update {schema}.step s
            set state = 'i', fence = claim, published = null, attempt = s.attempt + 1, since = now(), worker = workers[place], lane_id = 0,
                due_at = now() + least(leases_ms[place], d.timeout_ms) * interval '1 ms'
            from {schema}.definition d
            where s.task_id = tasks[place] and s.ordinal = ordinals[place]
              and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[place]) and d.ordinal = mine.slot;
            update {schema}.step_limit m set running = m.running + 1 where m.id in (mine.space_limit_id, mine.name_limit_id);
            claimed := claimed || tasks[place];
            claimed_steps := claimed_steps || ordinals[place];
            seats := seats || place;
        end if;
        verdicts := verdicts || verdict;
    end loop;
    return next;

    if claimed <> '{}' then
        perform pg_notify('{schema}_flow_watch', t.id::text) from {schema}.task t where t.id = any (claimed) and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query select null::text, h.* from {schema}.hand_out(claimed, claimed_steps, seats, leases_ms) h;
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.claim_steps(namespaces text[], names text[], left_out text[], known bigint[], floors_us bigint[], claim bigint, wants integer[], workers text[], leases_ms bigint[])
 RETURNS TABLE(next_due_ms double precision, lanes bigint[], reached_us bigint[], stocked boolean[], seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    seats   integer[] := array(
        select w.seat::integer
        from unnest(wants) with ordinality as w (want, seat), generate_series(1, w.want) as round
        order by round, w.seat limit 1000);
    taken   integer := 0;
    got     integer;
    quotas  integer[];
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
    -- Queues are read; otherwise lanes.
    whole   boolean;
    spaces  integer[];
    -- The ranges of what may be claimed, in order.
    froms   bigint[];
    tos     bigint[];
    -- Those of one priority in which something is due, the longest due first: from where each is read, the first step
    -- of each, and their limits.
    level   record;
    firsts  timestamptz[];
    -- All of them: see `level`.
    due_ids     bigint[];
    due_floors  timestamptz[];
    due_firsts  timestamptz[];
    due_spaces  integer[];
    due_names   integer[];
    -- What is claimed.
    tasks   uuid[] := '{}';
    steps   integer[] := '{}';
    whose   integer[] := '{}';
begin
    perform {schema}.age_plans();
    -- Whoever makes a limit counts what is under way: before this, or after it.
    lock table {schema}.step in row exclusive mode;
    spaces := array(select n.id from {schema}.namespace n where n.name = any (namespaces) order by n.id);
    whole := names is null and left_out = '{}'
        and not exists (select from {schema}.step_limit m where m.namespace_id = any (spaces) and m.name <> '');
    select r.froms, r.tos into froms, tos from {schema}.claimable_ranges(whole, spaces, names, left_out) r;

    select array_agg(l.id), coalesce(array_agg((extract(epoch from l.reached) * 1000000)::bigint), '{}'),
           coalesce(array_agg(l.due_at is not null), '{}'),
           min(l.due_at) filter (where not l.due),
           array_agg(l.id) filter (where l.due),
           array_agg(l.floor) filter (where l.due),
           array_agg(l.due_at) filter (where l.due)
    into lanes, reached_us, stocked, soonest, due_ids, due_floors, due_firsts
    from (
        select r.id, r.floor, r.due_at, coalesce(r.due_at <= now(), false) as due,
               case when r.due_at <= now() then r.due_at else now() end as reached
        from {schema}.first_due(whole, froms, tos, known, floors_us) r
    ) l;
    if whole then
        due_spaces := array(
            select m.id
            from unnest(due_ids) with ordinality as d (id, place)
            left join {schema}.step_limit m on m.namespace_id = (d.id >> 40)::integer and m.name = ''
            order by d.place);
        due_names := array_fill(null::integer, array[coalesce(cardinality(due_ids), 0)]);
    else
        select coalesce(array_agg(l.space_limit_id order by d.place), '{}'), coalesce(array_agg(l.name_limit_id
            order by d.place), '{}') into due_spaces, due_names
        from unnest(due_ids) with ordinality as d (id, place)
        cross join lateral (select l.space_limit_id, l.name_limit_id from {schema}.step_lane l where l.id = d.id
            offset 0) l;
    end if;
    if array_remove(due_spaces || due_names, null) <> '{}' then
        perform from {schema}.step_limit m where m.id = any (due_spaces || due_names) order by m.id for update;
    end if;

    for level in
        select array_agg(d.id order by d.first) as ids, array_agg(d.floor order by d.first) as floors,
            array_agg(d.first order by d.first) as firsts,
               array_agg(d.space_limit order by d.first) as spaces, array_agg(d.name_limit order by d.first) as names,
               bool_or(coalesce(d.space_limit, d.name_limit) is not null) as limited
        from unnest(due_ids, due_floors, due_firsts, due_spaces, due_names) as d (id, floor, first, space_limit,
            name_limit)
        group by d.id & 65535
        order by d.id & 65535 desc
    loop
        firsts := level.firsts;
        loop
            exit when taken = cardinality(seats);
            quotas := {schema}.share_out(whole, level.ids, firsts, level.spaces, level.names, level.limited,
                cardinality(seats) - taken);
            exit when quotas is null;
            with mine as materialized (
                select s.*, l.place as source, l.space_limit is not null or l.name_limit is not null as limited
                from unnest(level.ids, firsts, quotas, level.spaces, level.names) with ordinality as l (id, first,
                    quota, space_limit, name_limit, place)
                cross join lateral (
                    select q.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                            s.ready_at, s.since
                        from {schema}.step s
                        where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= now()
                            and s.due_at < 'infinity'
                        order by s.due_at limit l.quota for update skip locked
                    ) q
                    union all
                    select q.* from (
                        select s.ctid as tid, s.task_id, s.slot, s.state, s.due_at, s.fence, s.attempt, s.worker,
                            s.ready_at, s.since
                        from {schema}.step s
                        where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= now()
                            and s.due_at < 'infinity'
                        order by s.due_at limit l.quota for update skip locked
                    ) q
                ) s
                where l.quota > 0
            ), claimed as (
                update {schema}.step s
                set state = 'i', fence = claim, published = null, attempt = s.attempt + 1, since = now(),
                    worker = workers[seats[m.place]],
                    ready_at = case when s.state in ('w', 'i') then s.due_at else s.ready_at end,
                    due_at = now() + least(leases_ms[seats[m.place]], d.timeout_ms) * interval '1 ms',
                    -- Whoever dies with the last attempt, or with room that others wait for, leaves it to the engine.
                    -- So does a lease that ends with the timeout: the engine ends that attempt.
                    lane_id = case when s.attempt + 1 < d.max_attempts and not m.limited
                        and coalesce(d.timeout_ms > leases_ms[seats[m.place]], true) then s.lane_id else 0 end
                from (select taken + (row_number() over (order by m.due_at))::integer as place, m.* from mine m) m
                cross join lateral (select t.template_id from {schema}.task t where t.id = m.task_id offset 0) t
                cross join lateral (
                    select d.max_attempts, d.timeout_ms from {schema}.definition d
                        where d.template_id = t.template_id and d.ordinal = m.slot offset 0
                ) d
                -- Locked, it stays where it is. One that has moved since this began is not seen there, and left to the
                -- next look.
                where s.ctid = m.tid
                returning m.*, s.ordinal
            ), lost as (
                -- Whoever had it is not heard of any more.
                insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at,
                    ended_at)
                select c.task_id, c.ordinal, c.fence, c.attempt, 'l', c.worker, c.ready_at, c.since, c.due_at
                    from claimed c where c.state = 'i'
            )
            select count(*), coalesce(max(c.place), taken), tasks || array_agg(c.task_id order by c.place),
                steps || array_agg(c.ordinal order by c.place),
                   whose || array_agg(seats[c.place] order by c.place),
                   array(select (select count(*)::integer from claimed c where c.source = i.i)
                       from generate_subscripts(level.ids, 1) as i (i) order by i.i)
            into got, taken, tasks, steps, whose, quotas
            from claimed c;
            exit when got = 0;
            if level.limited then
                update {schema}.step_limit m set running = m.running + n.got
                from (
                    select x.id, sum(g.got)::integer as got
                    from unnest(quotas, level.spaces, level.names) as g (got, space_limit, name_limit)
                    cross join unnest(array[g.space_limit, g.name_limit]) as x (id)
                    where x.id is not null
                    group by x.id
                ) n
                where m.id = n.id;
            end if;
            firsts := array(
                select case when l.got = 0 then l.first else f.due_at end
                from unnest(level.ids, level.floors, firsts, quotas) with ordinality as l (id, floor, first, got, place)
                left join lateral (
                    (select s.due_at from {schema}.step s
                     where l.got > 0 and whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at < 'infinity'
                       and s.due_at <= case l.floor when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                    union all
                    (select s.due_at from {schema}.step s
                     where l.got > 0 and not whole and s.lane_id = l.id and s.due_at >= l.first
                         and s.due_at < 'infinity'
                       and s.due_at <= case l.floor when '-infinity' then 'infinity' else now() end
                     order by s.due_at limit 1)
                ) f on true
                order by l.place);
            -- What a limit has held back leaves room for others.
            exit when not level.limited;
        end loop;
        -- What a limit holds back is rung when there is room again.
        soonest := least(soonest, (
            select min(l.first)
            from unnest(firsts, level.spaces, level.names) as l (first, space_limit, name_limit)
            where taken = cardinality(seats) or not level.limited or not exists (
                select from {schema}.step_limit m where m.id in (l.space_limit, l.name_limit)
                    and m.running >= m.most)));
        -- Nobody is left who could take one.
        exit when taken = cardinality(seats) and soonest <= now();
    end loop;

    if taken > 0 then
        perform pg_notify('{schema}_flow_watch', t.id::text) from {schema}.task t where t.id = any (tasks)
            and t.watched_until > now() and pg_notification_queue_usage() < 0.9;
        return query select null::float8, null::bigint[], null::bigint[], null::boolean[], h.*
            from {schema}.hand_out(tasks, steps, whose, leases_ms) h;
    end if;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.claimable_ranges(whole boolean, spaces integer[], names text[], left_out text[], OUT froms bigint[], OUT tos bigint[])
 RETURNS record
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
begin
    if whole then
        select array_agg(n.id::bigint << 40 order by n.id), array_agg((n.id::bigint << 40) + 65535
            order by n.id) into froms, tos
        from unnest(spaces) as n (id);
    elsif names is not null then
        select array_agg(l.since order by l.since), array_agg(l.since + 65535 order by l.since) into froms, tos
        from unnest(spaces) as n (id)
        cross join unnest(names) as w (name)
        cross join lateral (
            select l.id >> 16 << 16 as since from {schema}.step_lane l where l.namespace_id = n.id
                and l.name = w.name limit 1
        ) l
        where w.name <> all (left_out);
    else
        -- What lies between the names that are left out.
        select array_agg(b.since order by b.since), array_agg(b.until order by b.since) into froms, tos
        from (
            select e.since, lead(e.until) over (partition by e.space order by e.until) as until
            from (
                select n.id as space, (n.id::bigint << 40) + 65536 as since, (n.id::bigint << 40) + 65535 as until
                from unnest(spaces) as n (id)
                union all
                select n.id, (l.id >> 16) + 1 << 16, (l.id >> 16 << 16) - 1
                from unnest(spaces) as n (id)
                cross join unnest(left_out) as w (name)
                cross join lateral (
                    select l.id from {schema}.step_lane l where l.namespace_id = n.id and l.name = w.name limit 1
                ) l
                union all
                select n.id, null, (n.id + 1::bigint << 40) - 1 from unnest(spaces) as n (id)
            ) e
        ) b
        where b.since <= b.until;
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.decide(of_task uuid, of_template integer, decision integer, chosen integer[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    follow  integer[];
    front   integer[];
    gone    integer;
    skipped integer := 0;
begin
    follow := array(select k.ordinal from {schema}.definition d cross join unnest(d.children) as c (ordinal)
                    cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
                    where d.template_id = of_template and d.ordinal = decision and (k.ordinal = any (chosen) or k.kind = 'c'));
    front := array(select s.ordinal from {schema}.definition d cross join unnest(d.children) as c (ordinal)
                   cross join lateral (select s.ordinal from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('a', 'p') offset 0) s
                   where d.template_id = of_template and d.ordinal = decision and not c.ordinal = any (follow));
    while front <> '{}' loop
        update {schema}.step s set state = 's', since = now() where s.task_id = of_task and s.ordinal = any (front) and s.state in ('a', 'p');
        get diagnostics gone = row_count;
        skipped := skipped + gone;
        -- A convergence waits for one parent less.
        update {schema}.step s set waiting = s.waiting - n.parents
        from (select c.ordinal, count(*)::integer as parents from {schema}.definition d cross join unnest(d.children) as c (ordinal)
              where d.template_id = of_template and d.ordinal = any (front) group by c.ordinal) n
        where s.task_id = of_task and s.ordinal = n.ordinal and s.state in ('a', 'p');
        front := array(
            select distinct k.ordinal
            from {schema}.definition d cross join unnest(d.children) as c (ordinal)
            cross join lateral (select k.* from {schema}.definition k where k.template_id = of_template and k.ordinal = c.ordinal offset 0) k
            cross join lateral (select from {schema}.step s where s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('a', 'p') offset 0) s
            where d.template_id = of_template and d.ordinal = any (front)
              and (k.kind <> 'c' or not exists (select from unnest(k.parents) as p (ordinal)
                                                cross join lateral (select o.state from {schema}.step o where o.task_id = of_task and o.ordinal = p.ordinal offset 0) o where o.state <> 's')));
    end loop;
    perform {schema}.appear(of_task, of_template, follow);
    -- A convergence whose last open question this was.
    update {schema}.step s set state = 'r', due_at = now(), ready_at = now(), since = now()
    from {schema}.definition d, {schema}.task t
    where d.template_id = of_template and d.kind = 'c' and s.task_id = of_task and s.ordinal = d.ordinal and s.state = 'p' and s.waiting = 0 and t.id = of_task and t.failed = 0;
    return skipped;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.divide(of_task uuid, of_template integer, divided integer, inputs text[])
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    more  integer := greatest(cardinality(inputs), 1) - 1;
    first integer;
begin
    update {schema}.task t set next_ordinal = t.next_ordinal + more where t.id = of_task returning t.next_ordinal - more into first;
    update {schema}.step s set state = 'p', part = 1, came_at = now(), since = now() where s.task_id = of_task and s.ordinal = divided;
    insert into {schema}.step (task_id, ordinal, slot, part, lane_id, state, waiting, due_at, came_at, ready_at)
    select of_task, first + i - 2, divided, i, s.lane_id, case when t.failed = 0 then 'r' else 'p' end::"char", 0, case when t.failed = 0 then now() else 'infinity' end,
           now(), case when t.failed = 0 then now() end
    from {schema}.step s, {schema}.task t, generate_series(2, more + 1) as i
    where s.task_id = of_task and s.ordinal = divided and t.id = of_task;
    insert into {schema}.step_data (task_id, ordinal, input)
    select of_task, case i.part when 1 then divided else first + i.part::integer - 2 end, i.input from unnest(inputs) with ordinality as i (input, part);
    -- Who follows waits for all parts.
    update {schema}.step s set waiting = s.waiting + more
    from {schema}.definition d cross join unnest(d.children) as c (ordinal)
    where d.template_id = of_template and d.ordinal = divided and s.task_id = of_task and s.ordinal = c.ordinal and s.state in ('a', 'p');
    perform {schema}.appear(of_task, of_template, array[divided]);
    return more;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.end_task(flight uuid, channels text[], payloads text[], patient boolean, of_task uuid, verb text, allowed text[], who text, why text, dry boolean)
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    was     "char";
    outcome text;
begin
    if patient then
        select t.state into was from {schema}.task t where t.id = of_task for update;
    else
        select t.state into was from {schema}.task t where t.id = of_task for update skip locked;
    end if;
    outcome := case
        when was is null then case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else '-' end
        when was::text = verb then concat('d', was)
        when was::text <> all (allowed) then concat('t', was)
        when dry then concat('=', was) end;
    if outcome is null then
        perform {schema}.end_tasks(array[of_task], verb::"char");
        insert into {schema}.task_operation (task_id, operation, state_before, operator, reason) values (of_task, verb::"char", was, who, why);
        outcome := concat('=', was);
    else
        channels := '{}';
        payloads := '{}';
    end if;
    outcomes := array[nullif(outcome, 'locked') || case when outcome ~ '^[=d]'
                      then (select count(*) from {schema}.step s where s.task_id = of_task and s.state = 'x')::text else '' end];
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.end_tasks(tasks uuid[], becomes "char")
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
declare
    left_tasks uuid[];
    left_slots integer[];
begin
    perform from {schema}.step s where s.task_id = any (tasks) and s.state in ('p', 'r', 'i', 'w') order by s.task_id, s.ordinal for update;
    with lost as (
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at)
        select s.task_id, s.ordinal, s.fence, s.attempt, 'x', s.worker, s.ready_at, s.since from {schema}.step s where s.task_id = any (tasks) and s.state = 'i'
        returning task_id, ordinal
    )
    select array_agg(s.task_id), array_agg(s.slot) into left_tasks, left_slots
    from lost l join {schema}.step s on s.task_id = l.task_id and s.ordinal = l.ordinal;
    update {schema}.step s set state = 'x', due_at = 'infinity', since = now() where s.task_id = any (tasks) and s.state in ('p', 'r', 'i', 'w');
    update {schema}.task t set state = becomes, due_at = 'infinity', updated_at = now(), ended_at = now() where t.id = any (tasks);
    perform {schema}.free_slots(left_tasks, left_slots);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.first_due(whole boolean, froms bigint[], tos bigint[], known bigint[], floors_us bigint[])
 RETURNS TABLE(id bigint, floor timestamp with time zone, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
    with mine as materialized (
        -- Found by halves: there may be a thousand of both.
        select k.id, w.place, to_timestamp(k.floor_us / 1000000::float8) as floor
        from unnest(known, floors_us) as k (id, floor_us)
        cross join lateral (select width_bucket(k.id, froms) as place offset 0) w
        where k.id <= tos[w.place]
    ), gap as materialized (
        -- What lies between them, within the ranges.
        select array_agg(g.after + 1) as froms, array_agg(g.before - 1) as tos
        from (
            select b.at as after, lead(b.at) over (partition by b.place order by b.at) as before
            from (
                select m.place, m.id as at from mine m
                union all
                select r.place, e.at
                from unnest(froms, tos) with ordinality as r (since, until, place)
                cross join unnest(array[r.since - 1, r.until + 1]) as e (at)
            ) b
        ) g
        where g.before - g.after > 1
    ), read as (
        select m.id, coalesce(m.floor, '-infinity') as floor, f.due_at
        from mine m
        left join lateral (
            (select s.due_at from {schema}.step s
             where whole and s.queue_id = m.id and s.due_at >= coalesce(m.floor, '-infinity')
                 and s.due_at < 'infinity'
               and s.due_at <= case when m.floor is null then 'infinity' else now() end
             order by s.due_at limit 1)
            union all
            (select s.due_at from {schema}.step s
             where not whole and s.lane_id = m.id and s.due_at >= coalesce(m.floor, '-infinity')
                 and s.due_at < 'infinity'
               and s.due_at <= case when m.floor is null then 'infinity' else now() end
             order by s.due_at limit 1)
        ) f on true
        union all
        select q.queue_id, '-infinity', q.due_at
        from gap g cross join lateral {schema}.live_queues(g.froms, g.tos) q where whole
        union all
        select l.lane_id, '-infinity', l.due_at
        from gap g cross join lateral {schema}.live_lanes(g.froms, g.tos) l where not whole
    )
    select r.id, r.floor, r.due_at from read r
$function$;

CREATE OR REPLACE FUNCTION {schema}.flow_figures(top bigint, counted bigint)
 RETURNS TABLE(kind text, namespace text, state text, amount bigint, oldest double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
    with recursive live_queue as (
        (select s.queue_id, s.due_at from {schema}.step s
         where s.due_at < 'infinity' order by s.queue_id, s.due_at limit 1)
        union all
        select n.queue_id, n.due_at
        from live_queue l
        cross join lateral (
            select s.queue_id, s.due_at from {schema}.step s
            where s.queue_id > l.queue_id and s.due_at < 'infinity' order by s.queue_id, s.due_at limit 1) n
    ), space as materialized (
        select n.id, n.name, o.amount as open, row_number() over (order by o.amount desc, n.id) as place
        from {schema}.namespace n
        cross join lateral (
            select count(*) as amount from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = 'o' limit counted) t) o
    ), told as materialized (
        select s.id, case when s.place <= top then s.name end as name, s.open from space s
    ), live as materialized (
        -- The id of a queue begins with its namespace; that of the engine's own with none.
        select coalesce(nullif(s.queue_id >> 40, 0), (
                   select t.namespace_id from {schema}.task t where t.id = s.task_id)) as namespace_id,
               s.task_id, s.state, s.due_at
        from {schema}.step s where s.due_at < 'infinity' limit counted
    ), open_step as materialized (
        select n.name, s.state
        from told n
        cross join lateral (
            select t.id from {schema}.task t where t.namespace_id = n.id and t.state = 'o' limit counted) t
        -- A task of many steps leaves room for others.
        cross join lateral (select s.state from {schema}.step s where s.task_id = t.id limit counted / 10) s
        limit counted
    ), open_task as materialized (
        -- One that failed is open only while a worker has a step of it.
        select n.name, t.state, count(*) as amount
        from (
            select s.namespace_id, case
                       when bool_or(s.state = 'i') then 'steps_in_process'
                       when bool_or(s.state = 'r' or s.due_at <= now()) then 'enqueuing_steps'
                       else 'waiting_for_retry' end as state
            from live s
            group by s.namespace_id, s.task_id
        ) t
        join told n on n.id = t.namespace_id
        group by n.name, t.state
    )
    select 't', n.name, a.state, sum(a.amount)::bigint, null::float8
    from told n
    cross join lateral (
        select 'open' as state, n.open as amount
        union all
        select w.word, (
            select count(*) from (
                select from {schema}.task t where t.namespace_id = n.id and t.state = w.state limit counted) t)
        from (values ('c'::"char", 'complete'), ('e', 'error'), ('x', 'cancelled'),
                     ('m', 'resolved_manually')) as w (state, word)
    ) a
    group by n.name, a.state
    union all
    select 's', n.name, case s.state when 'r' then 'ready' when 'i' then 'in_progress' else 'waiting_for_retry' end,
           count(*), null
    from live s
    join told n on n.id = s.namespace_id
    group by n.name, 3
    union all
    select 's', s.name, w.word, count(*), null
    from open_step s
    join (values ('p'::"char", 'pending'), ('c', 'complete'), ('e', 'error'), ('x', 'cancelled'),
                 ('m', 'resolved_manually')) as w (state, word) on w.state = s.state
    group by s.name, w.word
    union all
    select 'o', o.name, o.state, o.amount, null from open_task o
    union all
    -- The others, if every step that can go on was counted.
    select 'o', n.name, 'waiting_for_dependencies', greatest(n.open - coalesce(o.amount, 0), 0)::bigint, null
    from (select n.name, sum(n.open) as open from told n group by n.name) n
    left join (select o.name, sum(o.amount) as amount from open_task o group by o.name) o
        on o.name is not distinct from n.name
    where (select count(*) from live) < counted
    union all
    select 'r', n.name, null, count(*), extract(epoch from now() - min(l.due_at))::float8
    from (select l.queue_id, l.due_at from live_queue l limit counted) l
    join told n on n.id = l.queue_id >> 40
    where l.due_at <= now()
    group by n.name
    union all
    select 'f', n.name, null, sum(a.amount)::bigint, null
    from told n
    cross join lateral (
        select count(*) as amount from (
            select from {schema}.task t where t.namespace_id = n.id and t.failed > 0 limit counted) t) a
    group by n.name
    union all
    select 'i', null, null, count(*), null
    from (select from {schema}.investigation i where i.resolved_at is null limit counted) i
$function$;

CREATE OR REPLACE FUNCTION {schema}.follow(of_task uuid, of_template integer, step integer, kind "char", chosen integer[], inputs text[], OUT change integer, OUT done integer)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
declare
    divided integer;
begin
    if kind = 'd' then
        change := -{schema}.decide(of_task, of_template, step, coalesce(chosen, '{}'));
        return;
    end if;
    select w.ordinal into divided
    from {schema}.definition d join {schema}.definition w on w.template_id = d.template_id and w.ordinal = any (d.children) and w.kind = 'w'
    where d.template_id = of_template and d.ordinal = step;
    change := {schema}.divide(of_task, of_template, divided, coalesce(inputs, '{}'));
    if coalesce(inputs, '{}') = '{}' then
        -- A placeholder.
        update {schema}.step s set state = 'c', fence = 1, waiting = 0, since = now() where s.task_id = of_task and s.ordinal = divided;
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, result) values (of_task, divided, 1, 0, 'c', '{"batch_placeholder":true}');
        change := change - 1;
        done := divided;
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.free_slots(tasks uuid[], slots integer[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
declare
    freed integer[];
    full_ boolean;
begin
    if not exists (select from {schema}.step_limit) then
        return;
    end if;
    freed := array(
        select x.id
        from unnest(tasks, slots) as n (task_id, slot)
        join {schema}.task t on t.id = n.task_id
        cross join lateral (select d.name from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
        cross join lateral (
            select l.space_limit_id, l.name_limit_id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0
        ) l
        cross join unnest(array[l.space_limit_id, l.name_limit_id]) as x (id)
        where x.id is not null);
    perform from {schema}.step_limit m where m.id = any (freed) order by m.id for update;
    with less as (
        update {schema}.step_limit m set running = m.running - n.steps
        from (select x.id, count(*)::integer as steps from unnest(freed) as x (id) group by x.id) n
        where m.id = n.id
        returning m.running + n.steps >= m.most as was_full
    )
    select bool_or(l.was_full) into full_ from less l;
    if full_ then
        -- Who waits for another name may have waited for this, too.
        perform {schema}.ring(array['{schema}_flow', '{schema}_flow_deliveries'], array['', '']);
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.hand_out(tasks uuid[], steps integer[], seats integer[], leases_ms bigint[])
 RETURNS TABLE(seat integer, lease_ms bigint, task_id uuid, ordinal integer, fence bigint, attempt integer, template_id integer, slot integer, part integer, namespace text, definition_name text, step_name text, callable text, initialization text, max_attempts integer, timeout_ms bigint, context text, correlation_id text, input text, checkpoint text, results text, guarded boolean)
 LANGUAGE plpgsql
 STABLE
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
begin
    return query
    select seats[c.place] - 1, least(leases_ms[seats[c.place]], d.timeout_ms), c.task_id, c.ordinal, c.fence,
        c.attempt, g.template_id,
           g.slot, c.part, n.name, d.name, d.name || case when c.part is null then '' else '_' || to_char(c.part,
               'FM9999000') end, d.callable, d.initialization, d.max_attempts, d.timeout_ms,
           k.context, k.correlation_id, x.input, x.checkpoint, '{' || coalesce(q.results, r.results, '') || '}',
               c.guarded
    from (
        select t.template_id, s.slot, array_agg(n.place::integer) as places, array_agg(n.task_id) as tasks,
            array_agg(n.ordinal) as ordinals,
               array_agg(s.fence) as fences, array_agg(s.attempt) as attempts, array_agg(s.part) as parts,
                   array_agg(s.lane_id = 0) as guarded
        from unnest(tasks, steps) with ordinality as n (task_id, ordinal, place)
        cross join lateral (select s.* from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal
            offset 0) s
        cross join lateral (select t.template_id from {schema}.task t where t.id = n.task_id offset 0) t
        group by t.template_id, s.slot
    ) g
    cross join lateral (select d.* from {schema}.definition d where d.template_id = g.template_id
        and d.ordinal = g.slot offset 0) d
    cross join lateral (select n.name from {schema}.template t join {schema}.namespace n on n.id = t.namespace_id
        where t.id = g.template_id offset 0) n
    left join lateral (
        -- The names of all of them in order, and where those of each range begin.
        select r.sinces, r.untils, r.places, o.names
        from (
            select array_agg(r.since order by r.since) as sinces, array_agg(r.until order by r.since) as untils,
                array_agg(r.place order by r.since) as places
            from (
                select lower(r.range) as since, upper(r.range) as until,
                       (sum(upper(r.range) - lower(r.range)) over (order by r.range) - upper(r.range) + lower(r.range))::integer as place
                from (select y.before from {schema}.ancestry y where y.template_id = g.template_id
                    and y.ordinal = g.slot offset 0) y
                cross join unnest(y.before) as r (range)
            ) r
        ) r
        cross join lateral (
            select jsonb_agg(o.name order by o.ordinal) as names
            from unnest(r.sinces, r.untils) as w (since, until)
            cross join lateral (
                select o.ordinal, o.name from {schema}.definition o where o.template_id = g.template_id
                    and o.ordinal >= w.since and o.ordinal < w.until offset 0
            ) o
        ) o
    ) y on true
    cross join lateral (
        with recursive before (slot) as (
            select p.slot from unnest(d.parents) as p (slot) where y.sinces is null
            union
            select p.slot from before b
            cross join lateral (select o.parents from {schema}.definition o where o.template_id = g.template_id
                and o.ordinal = b.slot offset 0) o
            cross join unnest(o.parents) as p (slot)
        )
        select array_agg(b.slot) as slots, array_agg(o.name) as names, array_agg(o.kind) as kinds
        from before b
        cross join lateral (select o.name, o.kind from {schema}.definition o where o.template_id = g.template_id
            and o.ordinal = b.slot offset 0) o
    ) b
    cross join lateral unnest(g.places, g.tasks, g.ordinals, g.fences, g.attempts, g.parts, g.guarded) as c (place,
        task_id, ordinal, fence, attempt, part, guarded)
    cross join lateral (select k.context, k.correlation_id from {schema}.task_detail k where k.task_id = c.task_id
        offset 0) k
    left join lateral (select x.input, x.checkpoint from {schema}.step_data x where x.task_id = c.task_id
        and x.ordinal = c.ordinal offset 0) x on true
    cross join lateral (
        select string_agg((y.names -> (w.place + a.ordinal - w.since))::text || ':' || coalesce(a.result,
            '{"error":' || a.error || '}'), ',') as results
        from unnest(y.sinces, y.untils, y.places) as w (since, until, place)
        -- All places of a template have a step in each of its tasks: see
        -- docs/decisions/0023-what-may-come-to-be-is-a-row.md.
        cross join lateral (
            select array_agg(s.fence order by s.ordinal) as fences from {schema}.step s
            where s.task_id = c.task_id and s.ordinal >= w.since and s.ordinal < w.until
        ) s
        cross join lateral (
            select a.ordinal, a.result, a.error from {schema}.attempt a
            where a.task_id = c.task_id and a.ordinal >= w.since and a.ordinal < w.until
                and a.fence = s.fences[a.ordinal - w.since + 1]
              and (a.result is not null or a.error is not null)
            offset 0
        ) a
    ) q
    cross join lateral (
        select string_agg(to_json(p.name || case when s.part is null then '' else '_' || to_char(s.part,
            'FM9999000') end)::text || ':' || coalesce(a.result, '{"error":' || a.error || '}'), ',') as results
        from unnest(b.slots, b.names, b.kinds) as p (slot, name, kind)
        cross join lateral (
            select s.ordinal, s.part, s.fence from {schema}.step s where s.task_id = c.task_id and s.ordinal = p.slot
            union all
            -- The parts beyond the first have numbers beyond the template's.
            select s.ordinal, s.part, s.fence from {schema}.step s
            where p.kind = 'w' and s.task_id = c.task_id and s.slot = p.slot
              and s.ordinal > (select l.ordinal from {schema}.definition l where l.template_id = g.template_id
                  order by l.ordinal desc limit 1)
            offset 0
        ) s
        cross join lateral (
            select a.result, a.error from {schema}.attempt a
            where a.task_id = c.task_id and a.ordinal = s.ordinal and a.fence = s.fence and (a.result is not null
                or a.error is not null)
            offset 0
        ) a
    ) r
    order by c.place;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.investigate(tasks uuid[], ordinals integer[], reasons text[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own'
AS $function$
    insert into {schema}.investigation (task_id, ordinal, reason, snapshot)
    select n.task_id, n.ordinal, n.reason,
           json_build_object('state', t.state, 'unfinished_steps', t.unfinished, 'created_at', t.created_at, 'updated_at', t.updated_at,
                             'steps_by_state', (select json_object_agg(c.state, c.steps) from (
                                 select s.state, count(*) as steps from {schema}.step s where s.task_id = t.id and s.state not in ('a', 's') group by s.state) c),
                             'step', (select d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end
                                      from {schema}.step s join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
                                      where s.task_id = t.id and s.ordinal = n.ordinal),
                             'attempts', (select s.attempt from {schema}.step s where s.task_id = t.id and s.ordinal = n.ordinal),
                             'error', (select a.error::json from {schema}.attempt a where a.task_id = t.id and a.ordinal = n.ordinal and a.error is not null
                                       order by a.ended_at desc limit 1))::text
    from (select distinct on (m.task_id) m.* from unnest(tasks, ordinals, reasons) with ordinality as m (task_id, ordinal, reason, place) order by m.task_id, m.place) n
    join {schema}.task t on t.id = n.task_id
    on conflict (task_id) where resolved_at is null do nothing
$function$;

CREATE OR REPLACE FUNCTION {schema}.land(flight uuid, outcomes text[], channels text[], payloads text[])
 RETURNS integer
 LANGUAGE plpgsql
AS $function$
begin
    perform {schema}.age_plans();
    if flight is not null then
        insert into {schema}.flight (id, outcomes) values (flight, outcomes);
    end if;
    if cardinality(channels) > 0 then
        perform {schema}.ring(channels, payloads);
    end if;
    return pg_backend_pid();
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.limit_steps(of_namespace text, of_name text, of_most integer)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
declare
    space integer;
    mine  integer;
begin
    select n.id into space from {schema}.namespace n where n.name = of_namespace for no key update;
    if space is null then
        return false;
    end if;
    update {schema}.step_limit m set most = of_most where m.namespace_id = space and m.name = of_name
        and of_most is not null returning m.id into mine;
    if mine is null then
        -- Those who have only locked rows are waited for as well: what they have locked is written below.
        lock table {schema}.step in exclusive mode;
        if of_most is null then
            update {schema}.step_lane l set space_limit_id = case when of_name <> '' then l.space_limit_id end,
                name_limit_id = case when of_name = '' then l.name_limit_id end
            where l.namespace_id = space and (of_name = '' or l.name = of_name);
            delete from {schema}.step_limit m where m.namespace_id = space and m.name = of_name;
        else
            insert into {schema}.step_limit (namespace_id, name, most, running)
            select space, of_name, of_most, count(*)
            from {schema}.step s
            join {schema}.task t on t.id = s.task_id
            join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
            where s.state = 'i' and s.due_at < 'infinity' and t.namespace_id = space and (of_name = ''
                or d.name = of_name)
            returning id into mine;
            update {schema}.step_lane l set space_limit_id = case when of_name = '' then mine else l.space_limit_id end, name_limit_id = case when of_name = '' then l.name_limit_id else mine end
            where l.namespace_id = space and (of_name = '' or l.name = of_name);
            -- Whoever dies leaves the room that it had to the engine.
            update {schema}.step s set lane_id = 0
            from {schema}.step_lane l
            where s.lane_id >= space::bigint << 40 and s.lane_id < space + 1::bigint << 40 and l.id = s.lane_id
                and (of_name = '' or l.name = of_name)
              and s.state = 'i' and s.due_at < 'infinity';
        end if;
    end if;
    perform {schema}.ring(array['{schema}_flow', '{schema}_flow_deliveries', '{schema}_flow_leases'], array['', '', '']);
    return true;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.live_lanes(froms bigint[], tos bigint[])
 RETURNS TABLE(lane_id bigint, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
    with recursive live (lane_id, due_at, until) as (
        select s.lane_id, s.due_at, r.until
        from unnest(froms, tos) as r (since, until)
        cross join lateral (
            select s.lane_id, s.due_at from {schema}.step s
            where s.lane_id >= r.since and s.lane_id <= r.until and s.due_at < 'infinity'
            order by s.lane_id, s.due_at limit 1
        ) s
        union all
        select s.lane_id, s.due_at, l.until
        from live l
        cross join lateral (
            select s.lane_id, s.due_at from {schema}.step s
            where s.lane_id > l.lane_id and s.lane_id <= l.until and s.due_at < 'infinity'
            order by s.lane_id, s.due_at limit 1
        ) s
    )
    select l.lane_id, l.due_at from live l
$function$;

CREATE OR REPLACE FUNCTION {schema}.live_queues(froms bigint[], tos bigint[])
 RETURNS TABLE(queue_id bigint, due_at timestamp with time zone)
 LANGUAGE sql
 STABLE
AS $function$
    with recursive live (queue_id, due_at, until) as (
        select s.queue_id, s.due_at, r.until
        from unnest(froms, tos) as r (since, until)
        cross join lateral (
            select s.queue_id, s.due_at from {schema}.step s
            where s.queue_id >= r.since and s.queue_id <= r.until and s.due_at < 'infinity'
            order by s.queue_id, s.due_at limit 1
        ) s
        union all
        select s.queue_id, s.due_at, l.until
        from live l
        cross join lateral (
            select s.queue_id, s.due_at from {schema}.step s
            where s.queue_id > l.queue_id and s.queue_id <= l.until and s.due_at < 'infinity'
            order by s.queue_id, s.due_at limit 1
        ) s
    )
    select l.queue_id, l.due_at from live l
$function$;

CREATE OR REPLACE FUNCTION {schema}.note_ancestors(of_template integer)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    -- Ranges of one step, and of all steps that are added up.
    few    constant integer := 16;
    many   constant integer := 1000000;
    added  integer := 0;
    mine   int4multirange;
    ranges integer;
    sure   boolean;
    one    record;
begin
    for one in select d.ordinal, d.parents from {schema}.definition d where d.template_id = of_template
        order by d.ordinal loop
        continue when added > many;
        -- The parts of a batch have numbers of their own.
        select coalesce(range_agg(r.range), '{}'), count(*), coalesce(bool_and(r.sure), true) into mine, ranges, sure
        from unnest(one.parents) as p (slot)
        left join lateral (
            select y.before from {schema}.ancestry y where y.template_id = of_template and y.ordinal = p.slot offset 0
        ) y on true
        cross join lateral (
            select d.kind from {schema}.definition d where d.template_id = of_template and d.ordinal = p.slot offset 0
        ) d
        cross join lateral (
            select int4range(p.slot, p.slot + 1) as range, y.before is not null and d.kind <> 'w' as sure
            union all
            select b.range, true from unnest(y.before) as b (range)
        ) r;
        added := added + ranges;
        if sure and (select count(*) from unnest(mine)) <= few then
            insert into {schema}.ancestry (template_id, ordinal, before) values (of_template, one.ordinal, mine);
        end if;
    end loop;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.open_lanes(template integer, priority smallint)
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    space integer;
    last  bigint;
    names constant bigint := 16777215;
begin
    select n.id into space
    from {schema}.namespace n
    where n.id = (select t.namespace_id from {schema}.template t where t.id = template)
    for no key update;
    last := coalesce((
        select l.id from {schema}.step_lane l
        where l.id >= space::bigint << 40 and l.id < (space + 1)::bigint << 40
        order by l.id desc limit 1) >> 16 & names, 0);
    if last + (select count(*) from {schema}.definition d where d.template_id = template) > names then
        raise exception 'namespace % has too many step names: % are allowed', space, names;
    end if;
    insert into {schema}.step_lane (id, namespace_id, name, priority, space_limit_id, name_limit_id)
    select (space::bigint << 40) | (d.number << 16) | (open_lanes.priority + 32768), space, d.name,
        open_lanes.priority, s.id, n.id
    from (
        select d.name, coalesce(o.number, last + row_number() over (partition by o.number is null
            order by d.name)) as number
        from {schema}.definition d
        left join lateral (
            select l.id >> 16 & names as number from {schema}.step_lane l
            where l.namespace_id = space and l.name = d.name limit 1
        ) o on true
        where d.template_id = template
    ) d
    left join {schema}.step_limit s on s.namespace_id = space and s.name = ''
    left join {schema}.step_limit n on n.namespace_id = space and n.name = d.name
    order by d.name
    on conflict (namespace_id, name, priority) do nothing;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.open_namespace(of_name text, of_template text, of_description text, of_announces boolean)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    made record;
begin
    if exists (select from {schema}.namespace n where n.name = of_name) then
        return false;
    end if;
    insert into {schema}.namespace (name, description, mode, poll_ms, fallback, provider, announces, retention_s, failed_retention_s)
    select of_name, coalesce(of_description, ''), coalesce(t.mode, 'e'), coalesce(t.poll_ms, 1000), coalesce(t.fallback, true), coalesce(t.provider, 't'),
           coalesce(of_announces, t.announces, false), case when t.name is null then 2592000 else t.retention_s end, case when t.name is null then 7776000 else t.failed_retention_s end
    from (select) as one left join {schema}.namespace_template t on t.name = of_template
    on conflict do nothing
    returning id, name, description, created_at, announces into made;
    if made.id is null then
        return false;
    end if;
    perform {schema}.ring(array['{schema}_flow_namespaces'], array['']);
    if made.announces and pg_notification_queue_usage() < 0.9 then
        perform pg_notify('{schema}_namespace_created', json_build_object(
            'namespace_id', made.id, 'namespace_name', left(made.name, 1000), 'description', left(made.description, 1000), 'created_at', made.created_at, 'triggered_by', 'namespace_creation')::text);
    end if;
    return true;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.operate_step(flight uuid, channels text[], payloads text[], patient boolean, of_task uuid, of_slot integer, of_part integer, verb text, allowed text[], who text, why text, body text, chosen integer[], inputs text[], limit_ms bigint, dry boolean)
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    mine    record;
    target  record;
    opened  record;
    after   record;
    outcome text;
    below   bigint;
    -- What follows did not wait for it.
    passed  boolean;
    lifted  integer;
    resumed boolean;
    opens   boolean := false;
    ended   integer[] := '{}';
    change  integer := 0;
begin
    if patient then
        select t.state, t.template_id, t.failed into mine from {schema}.task t where t.id = of_task for update;
    else
        select t.state, t.template_id, t.failed into mine from {schema}.task t where t.id = of_task for update skip locked;
    end if;
    perform from {schema}.step s
    where mine.state is not null and s.task_id = of_task and (s.slot = of_slot and s.part is not distinct from of_part or s.state in ('i', 'x')
          or s.ordinal = any ((select d.children from {schema}.definition d where d.template_id = mine.template_id and d.ordinal = of_slot)::integer[]))
    order by s.ordinal for update;
    select s.ordinal, s.state, s.fence, s.attempt, s.worker, s.ready_at, s.since, d.kind, d.children, d.failure_strategy into target
    from {schema}.step s join {schema}.definition d on d.template_id = mine.template_id and d.ordinal = s.slot
    where s.task_id = of_task and s.slot = of_slot and s.part is not distinct from of_part and s.state not in ('a', 's');
    passed := target.state = 'e' and coalesce(target.failure_strategy in ('c', 'i'), false);

    outcome := case
        when mine.state is null then case when exists (select from {schema}.task t where t.id = of_task) then 'locked' else '-' end
        when target.ordinal is null then '?'
        when mine.state in ('c', 'x', 'm') then concat('t', mine.state)
        when target.state::text <> all (allowed) then concat('s', target.state)
        when verb = 'c' and target.state = 'm' and target.kind in ('d', 'b') then 'd'
        when verb = 'r' and passed and exists (select from {schema}.step s where s.task_id = of_task and s.ordinal = any (target.children) and s.state not in ('a', 'p', 'r', 's')) then 'b'
        when dry then concat('=', target.state, target.state, mine.state) end;
    if outcome is not null then
        outcomes := array[nullif(outcome, 'locked')];
        backend := {schema}.land(flight, outcomes, '{}', '{}');
        return next;
        return;
    end if;

    if mine.state = 'e' then
        perform {schema}.revive_steps(of_task, target.ordinal, who, why);
    end if;
    below := least(0, (select min(a.fence) from {schema}.attempt a where a.task_id = of_task and a.ordinal = target.ordinal)) - 1;
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, reason)
    select of_task, target.ordinal, target.fence, target.attempt, 'x', target.worker, target.ready_at, target.since, null, null where target.state = 'i'
    union all
    select of_task, target.ordinal, below, target.attempt, verb::"char", who, null, null, body, why;
    update {schema}.step s
    set state = (case verb when 'r' then 'p' else verb end)::"char", since = now(), due_at = 'infinity', attempt = case verb when 'r' then 0 else s.attempt end,
        -- A result that is there stays its result.
        fence = case when verb = 'r' or verb = 'm' and s.state = 'c' then s.fence else below end
    where s.task_id = of_task and s.ordinal = target.ordinal;

    lifted := (target.state = 'e' and not passed)::integer;
    resumed := mine.failed = lifted and (lifted = 1 or mine.state = 'e');
    if resumed and mine.state = 'e' then
        update {schema}.task t set failed = 0, state = 'o', ended_at = null, resumed_at = now(), due_at = coalesce(now() + limit_ms * interval '1 ms', 'infinity') where t.id = of_task;
    elsif lifted = 1 then
        update {schema}.task t set failed = t.failed - 1 where t.id = of_task;
    end if;

    if verb = 'r' and passed then
        -- What went on without it waits for it again.
        update {schema}.step s
        set waiting = s.waiting + 1, due_at = 'infinity', state = case s.state when 'r' then 'p' else s.state end, ready_at = case s.state when 'r' then null else s.ready_at end
        where s.task_id = of_task and s.ordinal = any (target.children) and s.state in ('a', 'p', 'r');
        change := 1;
    elsif verb <> 'r' and not passed and target.state not in ('c', 'm') then
        ended := array[of_slot];
        change := -1;
        opens := target.kind in ('d', 'b');
        if opens then
            opened := {schema}.follow(of_task, mine.template_id, of_slot, target.kind, chosen, inputs);
            change := change + opened.change;
            ended := ended || array_remove(array[opened.done], null);
        end if;
    end if;
    select a.state, a.readied into after
    from {schema}.advance_tasks(array[of_task], array_fill(of_task, array[cardinality(ended)]), ended, array[of_task], array[change]) as a;
    if verb = 'r' or resumed then
        perform {schema}.resume_tasks(array[of_task]);
    end if;

    outcomes := array[concat('=', target.state, (select s.state from {schema}.step s where s.task_id = of_task and s.ordinal = target.ordinal), after.state,
                             case when after.readied then '+' end, case when verb = 'r' or resumed or opens then '*' end)];
    backend := {schema}.land(flight, outcomes, channels, payloads);
    if target.state = 'i' then
        perform {schema}.free_slots(array[of_task], array[of_slot]);
    end if;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.prune_tasks(most_tasks integer, most_rows integer)
 RETURNS TABLE(removed integer, more boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    ignored text := set_config('synchronous_commit', 'off', true);
    expired uuid[];
    gone    uuid[];
    deleted bigint;
    most    bigint := 0;
begin
    perform {schema}.age_plans();
    expired := array(
        select t.id
        from {schema}.namespace n
        cross join lateral (
            values ('c'::"char", n.retention_s), ('x', n.retention_s), ('m', n.retention_s), ('e', n.failed_retention_s)
        ) as k (state, keep_s)
        cross join lateral (
            select t.id from {schema}.task t
            where t.namespace_id = n.id and t.state = k.state
              and t.ended_at is not null and t.ended_at <= now() - k.keep_s * interval '1 s'
            order by t.ended_at limit most_tasks
        ) t
        limit most_tasks);
    removed := cardinality({schema}.remove_tasks(expired));

    gone := array(
        select r.task_id from {schema}.removed_task r order by r.task_id limit most_tasks for update skip locked);
    delete from {schema}.step s
    where s.ctid = any (array(select o.ctid from {schema}.step o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.step_data x
    where x.ctid = any (array(select o.ctid from {schema}.step_data o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.attempt a
    where a.ctid = any (array(select o.ctid from {schema}.attempt o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.task_operation p
    where p.ctid = any (
        array(select o.ctid from {schema}.task_operation o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.investigation i
    where i.ctid = any (
        array(select o.ctid from {schema}.investigation o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.domain_event e
    where e.ctid = any (array(select o.ctid from {schema}.domain_event o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    -- Nothing adds rows of a task that is gone. So where every table had fewer than that, nothing is left.
    if most < most_rows then
        delete from {schema}.removed_task r where r.task_id = any (gone);
    end if;
    more := most = most_rows or cardinality(gone) = most_tasks or removed = most_tasks;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.public_state(of_task uuid)
 RETURNS text
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own'
AS $function$
    select case t.state when 'c' then 'complete' when 'e' then 'error' when 'x' then 'cancelled' when 'm' then 'resolved_manually' else (
        select case when bool_or(s.state = 'i') then 'steps_in_process'
                    when t.failed > 0 then 'blocked_by_failures'
                    when bool_or(s.state = 'r') then 'enqueuing_steps'
                    when bool_or(s.state = 'w') then 'waiting_for_retry'
                    else 'waiting_for_dependencies' end
        from {schema}.step s where s.task_id = t.id) end
    from {schema}.task t where t.id = of_task
$function$;

CREATE OR REPLACE FUNCTION {schema}.publish_steps(of_namespace text, of_provider text, want integer, number bigint, lease_ms bigint)
 RETURNS TABLE(next_due_ms double precision, task_id uuid, ordinal integer, name text, priority smallint, attempt integer, again_ms double precision)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    space   integer;
    queue   record;
    mine    record;
    taken   integer := 0;
    soonest timestamptz;
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    select n.id into space from {schema}.namespace n where n.name = of_namespace
        and n.provider = of_provider::"char" for share;
    if space is null then
        return next;
        return;
    end if;
    for queue in
        select l.queue_id, l.due_at from {schema}.live_queues(array[space::bigint << 40],
            array[(space::bigint << 40) + 65535]) l
        order by l.queue_id desc
    loop
        soonest := least(soonest, case when queue.due_at > now() then queue.due_at end);
        continue when queue.due_at > now();
        if taken < want then
            for mine in
                with due as materialized (
                    select s.task_id, s.ordinal, s.state, s.due_at, s.fence, s.attempt, s.worker, s.ready_at, s.since
                    from {schema}.step s
                    where s.queue_id = queue.queue_id and s.due_at <= now() and s.due_at < 'infinity' order by s.due_at
                    limit want - taken for update skip locked
                ), lost as (
                    -- Whoever had it is not heard of any more.
                    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at,
                        claimed_at, ended_at)
                    select d.task_id, d.ordinal, d.fence, d.attempt, 'l', d.worker, d.ready_at, d.since, d.due_at
                        from due d where d.state = 'i'
                )
                update {schema}.step s
                -- What is tried again is ready from when its pause ended, or its lease.
                set published = number, state = 'r', since = case s.state when 'r' then s.since else now() end,
                    ready_at = case s.state when 'r' then s.ready_at else s.due_at end,
                    due_at = now() + lease_ms * interval '1 ms'
                from due d
                where s.task_id = d.task_id and s.ordinal = d.ordinal
                returning s.task_id, s.ordinal, s.attempt, s.lane_id, extract(epoch
                    from s.due_at - now()) * 1000 as again_ms
            loop
                taken := taken + 1;
                task_id := mine.task_id;
                ordinal := mine.ordinal;
                select l.name, l.priority into name, priority from {schema}.step_lane l where l.id = mine.lane_id;
                attempt := mine.attempt;
                again_ms := mine.again_ms;
                return next;
            end loop;
        end if;
        soonest := least(soonest, (
            select s.due_at from {schema}.step s where s.queue_id = queue.queue_id and s.due_at < 'infinity'
                order by s.due_at limit 1));
    end loop;
    next_due_ms := case when soonest is not null then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    task_id := null;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.put_namespace(of_name text, of_template text, of_description text, of_mode text, of_poll_ms integer, of_fallback boolean, of_provider text, of_announces boolean, of_retention_s bigint, of_failed_retention_s bigint)
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    if of_template is not null
       and not exists (select from {schema}.namespace_template t where t.name = of_template) then
        return false;
    end if;
    perform {schema}.open_namespace(of_name, coalesce(of_template, 'default'), of_description, of_announces);
    perform {schema}.change_namespace(of_name, of_description, of_mode, of_poll_ms, of_fallback, of_provider,
                                      of_announces, of_retention_s, of_failed_retention_s);
    return true;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.register_template(of_namespace text, of_name text, of_version text, of_document text, limits json, definitions json)
 RETURNS TABLE(id integer, namespace_id integer, same boolean, new boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
begin
    perform {schema}.open_namespace(of_namespace, 'default', null, null);
    select n.id into namespace_id from {schema}.namespace n where n.name = of_namespace;
    insert into {schema}.template (namespace_id, name, version, document, description, step_count, max_duration_ms,
                                   max_waiting_ms, max_retry_ms, max_in_process_ms, staleness)
    select register_template.namespace_id, of_name, of_version, of_document, coalesce(l.description, ''),
           json_array_length(definitions), l.max_duration_ms, l.max_waiting_ms, l.max_retry_ms, l.max_in_process_ms,
           l.staleness::"char"
    from json_to_record(limits) as l (description text, max_duration_ms bigint, max_waiting_ms bigint,
                                      max_retry_ms bigint, max_in_process_ms bigint, staleness text)
    on conflict do nothing
    returning template.id into id;
    new := id is not null;
    if not new then
        select t.id, t.document = of_document into id, same from {schema}.template t where t.namespace_id = register_template.namespace_id and t.name = of_name and t.version = of_version;
        return next;
        return;
    end if;
    insert into {schema}.definition (template_id, ordinal, name, kind, parents, children, absent, callable, initialization, max_attempts, backoff, backoff_base_ms, max_backoff_ms, jitter,
                                     timeout_ms, failure_strategy, success_events, failure_events)
    select register_template.id, n.ordinal, n.name, n.kind::"char", n.parents, n.children, n.absent, n.callable, n.initialization, n.max_attempts, n.backoff::"char", n.backoff_base_ms,
           n.max_backoff_ms, n.jitter, n.timeout_ms, n.failure_strategy::"char", n.success_events, n.failure_events
    from json_to_recordset(definitions) as n (
        ordinal integer, name text, kind text, parents integer[], children integer[], absent boolean, callable text, initialization text, max_attempts integer, backoff text,
        backoff_base_ms integer, max_backoff_ms integer, jitter real, timeout_ms bigint, failure_strategy text, success_events text[], failure_events text[]);
    -- Claims by callables have to know the new names.
    update {schema}.namespace n set version = n.version + 1 where n.id = register_template.namespace_id;
    perform {schema}.ring(array['{schema}_flow_namespaces'], array['']);
    perform {schema}.note_ancestors(id);
    same := true;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.remove_tasks(tasks uuid[])
 RETURNS uuid[]
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
declare
    mine uuid[] := array(
        select t.id from {schema}.task t where t.id = any (tasks) and t.state <> 'o'
        order by t.id for update skip locked);
begin
    insert into {schema}.removed_task (task_id) select m.id from unnest(mine) as m (id) on conflict do nothing;
    delete from {schema}.task_detail k where k.task_id = any (mine);
    delete from {schema}.task t where t.id = any (mine);
    return mine;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.renew_steps(flight uuid, channels text[], payloads text[], patient boolean, tasks uuid[], ordinals integer[], fences bigint[], leases_ms bigint[], checkpoints text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    mine    integer;
    lasts   text;
    locked  boolean[] := array_fill(false, array[cardinality(tasks)]);
    renewed text[] := array_fill(null::text, array[cardinality(tasks)]);
begin
    if checkpoints is null then
        perform set_config('synchronous_commit', 'off', true);
    end if;
    for place in 1 .. cardinality(tasks) loop
        -- The same step twice in one flight is locked already.
        if patient then
            select s.slot into mine from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update;
        else
            select s.slot into mine from {schema}.step s where s.task_id = tasks[place] and s.ordinal = ordinals[place] for update skip locked;
        end if;
        locked[place] := found;
        continue when not found;
        update {schema}.step s
        set due_at = greatest(s.due_at, least(now() + leases_ms[place] * interval '1 ms', s.since + d.timeout_ms * interval '1 ms')),
            -- A lease that ends with the timeout is the engine's to end: see functions/claim_steps.sql.
            lane_id = case when now() + leases_ms[place] * interval '1 ms' >= s.since + d.timeout_ms * interval '1 ms' then 0 else s.lane_id end
        from {schema}.definition d
        where s.task_id = tasks[place] and s.ordinal = ordinals[place] and s.fence = fences[place] and s.state = 'i'
          and d.template_id = (select t.template_id from {schema}.task t where t.id = tasks[place]) and d.ordinal = mine
          and (d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now())
        returning 'o' || case when s.due_at >= s.since + d.timeout_ms * interval '1 ms' then ceil(extract(epoch from s.due_at - now()) * 1000)::bigint::text else '' end
        into lasts;
        renewed[place] := lasts;
        if lasts is not null and checkpoints[place] is not null then
            insert into {schema}.step_data as k (task_id, ordinal, checkpoint) values (tasks[place], ordinals[place], checkpoints[place])
            on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
        end if;
    end loop;
    outcomes := array(
        select case
            when renewed[n.place] is not null then renewed[n.place]
            when not locked[n.place] and exists (select from {schema}.step s where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i') then null
            else 's' end
        from unnest(tasks, ordinals, fences) with ordinality as n (task_id, ordinal, fence, place) order by n.place);
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.resume_tasks(tasks uuid[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own'
AS $function$
    update {schema}.step s
    set due_at = case s.state when 'i' then s.due_at else now() end, state = case s.state when 'p' then 'r' else s.state end, lane_id = n.lane_id,
        ready_at = case s.state when 'i' then s.ready_at else now() end, since = case s.state when 'p' then now() else s.since end
    from (
        select o.task_id, o.ordinal, d.max_attempts, d.timeout_ms, l.id as lane_id, l.space_limit_id is null and l.name_limit_id is null as unlimited
        from {schema}.task t
        cross join lateral (select o.task_id, o.ordinal, o.slot from {schema}.step o where o.task_id = t.id and o.state in ('p', 'r', 'w', 'i') offset 0) o
        cross join lateral (select d.name, d.max_attempts, d.timeout_ms from {schema}.definition d where d.template_id = t.template_id and d.ordinal = o.slot offset 0) d
        cross join lateral (select l.* from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0) l
        where t.id = any (tasks) and t.failed = 0 and t.state = 'o'
        offset 0
    ) n
    where s.task_id = n.task_id and s.ordinal = n.ordinal
      and (s.due_at = 'infinity' and (s.state in ('p', 'r') and s.waiting = 0 or s.state = 'w') or s.state = 'i' and s.lane_id = 0 and s.attempt < n.max_attempts and n.unlimited and coalesce(s.due_at < s.since + n.timeout_ms * interval '1 ms', true))
$function$;

CREATE OR REPLACE FUNCTION {schema}.revive_steps(of_task uuid, target integer, who text, why text)
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own'
AS $function$
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ended_at, reason)
    select s.task_id, s.ordinal, f.lowest - n.below, s.attempt, n.outcome::"char", n.worker, n.ended_at, n.reason
    from {schema}.step s
    cross join lateral (
        select least(0, min(a.fence)) as lowest
        from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal
    ) f
    cross join lateral (
        values (1, 'x', null, s.since, null), (2, 'r', who, now(), why)
    ) as n (below, outcome, worker, ended_at, reason)
    where s.task_id = of_task and s.state = 'x' and (s.ordinal <> target or n.outcome = 'x');
    update {schema}.step s
    set state = 'p', due_at = 'infinity', since = now(), attempt = 0, published = null
    where s.task_id = of_task and s.state = 'x'
$function$;

CREATE OR REPLACE FUNCTION {schema}.ring(channels text[], payloads text[])
 RETURNS void
 LANGUAGE plpgsql
AS $function$
begin
    perform pg_notify(channel,
                     case when payload ~ '^\+[0-9]{1,15}$'
                          then ((extract(epoch from now()) * 1000)::bigint + substr(payload, 2)::bigint)::text
                          else payload end)
    from unnest(channels, payloads) as rung (channel, payload);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.ring_by_trigger()
 RETURNS trigger
 LANGUAGE plpgsql
AS $function$
begin
    perform pg_notify(tg_argv[0], coalesce(tg_argv[1], ''));
    return null;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.settle_steps(flight uuid, channels text[], payloads text[], patient boolean, tasks uuid[], ordinals integer[], fences bigint[], verbs text[], bodies text[], delays_ms bigint[], templates integer[], definitions integer[], chosen_lasts integer[], chosen integer[], input_lasts integer[], inputs text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    locked   uuid[];
    places   integer[];
    mine     uuid[];
    steps    integer[];
    slots    integer[];
    verdicts text[];
    -- Of attempts that took too long: the timeout.
    timeouts bigint[];
    member   record;
    opened   record;
    -- What goes on: see functions/advance_tasks.sql.
    ended    uuid[];
    ended_of integer[];
    changed  uuid[];
    changes  integer[];
    gone_on  uuid[];
    publishes boolean;
    told     text[];
    task     integer := 1;
    after    text[];
begin
    if patient then
        locked := array(select t.id from {schema}.task t where t.id = any (tasks) order by t.id for update);
    else
        locked := array(select t.id from {schema}.task t where t.id = any (tasks) order by t.id for update skip locked);
    end if;

    -- The steps that are still of who presents them, and what becomes of each.
    select array_agg(n.place order by n.task_id, n.ordinal), array_agg(n.task_id order by n.task_id, n.ordinal), array_agg(n.ordinal order by n.task_id, n.ordinal),
           array_agg(n.slot order by n.task_id, n.ordinal), array_agg(n.verdict order by n.task_id, n.ordinal),
           array_agg(n.timeout_ms order by n.task_id, n.ordinal), bool_or(n.publishes)
    into places, mine, steps, slots, verdicts, timeouts, publishes
    from (
        select n.place::integer, s.task_id, s.ordinal, s.slot, case
            when n.verb = 'c' then 'c'
            when n.verb in ('g', 'y') then 'r'
            when n.verb = 'l' and s.attempt < d.max_attempts and coalesce(s.since + d.timeout_ms * interval '1 ms' > now(), true) then 'l'
            when n.verb in ('f', 'l') and s.attempt < d.max_attempts then 'w'
            when d.failure_strategy in ('c', 'i') then 'p'
            else 'e' end as verdict,
            case when n.verb = 'l' and s.since + d.timeout_ms * interval '1 ms' <= now() then d.timeout_ms end as timeout_ms,
            d.success_events <> '{}' or d.failure_events <> '{}' as publishes
        -- Said twice in one flight, it is heard once; a worker's word before the engine's.
        from (select distinct on (m.task_id, m.ordinal, m.fence, m.template_id, m.slot) m.*
              from unnest(tasks, ordinals, fences, verbs, templates, definitions)
                   with ordinality as m (task_id, ordinal, fence, verb, template_id, slot, place)
              order by m.task_id, m.ordinal, m.fence, m.template_id, m.slot, m.verb = 'l', m.place) n
        cross join lateral (
            select s.task_id, s.ordinal, s.slot, s.attempt, s.since from {schema}.step s
            where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i' and (n.verb <> 'l' or s.due_at <= now())
            for update
        ) s
        join {schema}.task t on t.id = n.task_id
        cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = s.slot offset 0) d
        -- What a worker says after the timeout does not count: the engine ends the attempt.
        where n.task_id = any (locked) and (n.verb = 'l' or d.timeout_ms is null or s.since + d.timeout_ms * interval '1 ms' > now())
          and (templates is null or (t.template_id = n.template_id and s.slot = n.slot))
    ) n;

    if places is not null then
        for i in 1 .. cardinality(places) loop
            continue when timeouts[i] is null;
            verbs[places[i]] := 't';
            bodies[places[i]] := json_build_object('message', format('the attempt took longer than its timeout of %s ms', timeouts[i]), 'type', 'timeout', 'retryable', true);
        end loop;
        insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ready_at, claimed_at, result, error)
        select s.task_id, s.ordinal, s.fence, s.attempt,
               (case when verbs[n.place] = 't' then case n.verdict when 'w' then 't' else 'T' end when n.verdict = 'r' or verbs[n.place] = 'l' then verbs[n.place] when n.verdict = 'w' then 'f' when n.verdict = 'p' then 'e' else n.verdict end)::"char",
               s.worker, s.ready_at, s.since,
               case when n.verdict = 'c' then bodies[n.place] end, case when n.verdict in ('w', 'p', 'e') then bodies[n.place] end
        from unnest(places, mine, steps, verdicts) as n (place, task_id, ordinal, verdict)
        join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal;

        update {schema}.step s
        set state = (case when n.verdict = 'p' then 'e' when n.verdict in ('r', 'l') then case when n.failed > 0 then 'p' else 'r' end else n.verdict end)::"char", since = now(),
            attempt = case when n.verdict = 'r' then s.attempt - 1 else s.attempt end,
            due_at = case
                -- Nothing is begun with in a task in which something failed.
                when n.failed > 0 then 'infinity'
                when n.verdict in ('r', 'l') then now()
                when n.verdict = 'w' then now() + coalesce(delays_ms[n.place], {schema}.backoff_ms(n.backoff, n.backoff_base_ms, n.max_backoff_ms, s.attempt, n.jitter)) * interval '1 ms'
                else 'infinity' end,
            -- The lease of a last attempt was the engine's to watch.
            lane_id = n.lane_id
        from (
            select n.*, t.failed, d.backoff, d.backoff_base_ms, d.max_backoff_ms, d.jitter, l.id as lane_id
            from unnest(places, mine, steps, slots, verdicts) as n (place, task_id, ordinal, slot, verdict)
            join {schema}.task t on t.id = n.task_id
            cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
            cross join lateral (select l.id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0) l
            offset 0
        ) n
        where s.task_id = n.task_id and s.ordinal = n.ordinal;

        if 'y' = any (verbs) then
            insert into {schema}.step_data as k (task_id, ordinal, checkpoint)
            select n.task_id, n.ordinal, bodies[n.place] from unnest(places, mine, steps) as n (place, task_id, ordinal) where verbs[n.place] = 'y'
            on conflict (task_id, ordinal) do update set checkpoint = excluded.checkpoint;
        end if;
        if 'e' = any (verdicts) then
            perform {schema}.suspend_tasks(array(select n.task_id from unnest(mine, verdicts) as n (task_id, verdict) where n.verdict = 'e'));
        end if;

        select array_agg(n.task_id), array_agg(n.slot), array_agg(n.task_id), array_agg(-1) into ended, ended_of, changed, changes
        from unnest(mine, slots, verdicts) as n (task_id, slot, verdict) where n.verdict in ('c', 'p');
        if chosen_lasts is not null or input_lasts is not null then
            for member in
                select n.task_id, t.template_id, d.ordinal, d.kind,
                       chosen[coalesce(chosen_lasts[n.place - 1], 0) + 1:chosen_lasts[n.place]] as chosen, inputs[coalesce(input_lasts[n.place - 1], 0) + 1:input_lasts[n.place]] as inputs
                from unnest(places, mine, slots, verdicts) as n (place, task_id, slot, verdict)
                join {schema}.task t on t.id = n.task_id
                cross join lateral (select d.ordinal, d.kind from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
                where n.verdict = 'c' and d.kind in ('d', 'b')
            loop
                opened := {schema}.follow(member.task_id, member.template_id, member.ordinal, member.kind, member.chosen, member.inputs);
                changed := changed || member.task_id;
                changes := changes || opened.change;
                if opened.done is not null then
                    ended := ended || member.task_id;
                    ended_of := ended_of || opened.done;
                end if;
            end loop;
        end if;
    end if;

    select array_agg(a.task_id order by a.task_id), array_agg(a.state::text || case when a.readied then '+' else '' end || case when a.watched then '!' else '' end order by a.task_id)
    into gone_on, after
    from {schema}.advance_tasks(array(select distinct m.id from unnest(mine) as m (id)), ended, ended_of, changed, changes) as a;

    -- A lost ring costs a watcher time; a full queue would cost the write.
    perform pg_notify('{schema}_flow_watch', n.task_id::text) from unnest(gone_on, after) as n (task_id, after) where n.after like '%!' and pg_notification_queue_usage() < 0.9;
    if publishes or 'e' = any (verdicts) or 'p' = any (verdicts) then
        perform {schema}.tell(mine, steps, slots, verdicts, array(select verbs[p.place] from unnest(places) as p (place)), array(select bodies[p.place] from unnest(places) as p (place)));
    end if;
    -- Both are in the order of tasks: told side by side, where a join of arrays would take their product.
    told := array_fill(null::text, array[cardinality(tasks)]);
    for i in 1 .. coalesce(cardinality(places), 0) loop
        while gone_on[task] <> mine[i] loop
            task := task + 1;
        end loop;
        told[places[i]] := verdicts[i] || after[task];
    end loop;
    outcomes := array(
        select case
            when told[n.place] is not null then told[n.place]
            when not n.task_id = any (locked) and exists (select from {schema}.task t where t.id = n.task_id) then null
            when templates is not null and exists (
                select from {schema}.step s
                join {schema}.task t on t.id = s.task_id
                where s.task_id = n.task_id and s.ordinal = n.ordinal and s.fence = n.fence and s.state = 'i'
                  and (t.template_id <> n.template_id or s.slot <> n.slot)
            ) then 'x'
            else coalesce((select 'd' || p.outcome::text from {schema}.attempt p where p.task_id = n.task_id and p.ordinal = n.ordinal and p.fence = n.fence), 's') end
        from unnest(tasks, ordinals, fences, templates, definitions)
             with ordinality as n (task_id, ordinal, fence, template_id, slot, place)
        order by n.place);
    backend := {schema}.land(flight, outcomes, channels, payloads);
    -- After what the flight rings: as many notifications as that are taken for its echo.
    perform {schema}.free_slots(mine, slots);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.share_out(whole boolean, ids bigint[], firsts timestamp with time zone[], spaces integer[], names integer[], limited boolean, want integer)
 RETURNS integer[]
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
    rooms       integer[] := array_fill(want, array[cardinality(ids)]);
    space_rooms integer[] := rooms;
    until       timestamptz := now();
    sample      integer;
    quotas      integer[];
begin
    if limited then
        select array_agg(coalesce(least(want, n.most - n.running), want) order by l.place),
            array_agg(coalesce(least(want, s.most - s.running), want) order by l.place)
        into rooms, space_rooms
        from unnest(spaces, names) with ordinality as l (space_limit, name_limit, place)
        left join {schema}.step_limit s on s.id = l.space_limit
        left join {schema}.step_limit n on n.id = l.name_limit;
    end if;
    if cardinality(ids) = 1 then
        quotas := array[least(rooms[1], space_rooms[1])];
        return case when quotas[1] > 0 and firsts[1] <= now() then quotas end;
    end if;
    if not limited and cardinality(ids) > 4 then
        -- If a part of them have `sample` steps each until then, those are enough.
        sample := 2 * want / cardinality(ids) + 1;
        select coalesce(p.due_at, now()) into until
        from (
            select s.due_at
            from unnest(ids, firsts) as l (id, first)
            cross join lateral (
                (select s.due_at from {schema}.step s
                 where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= now()
                     and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
                union all
                (select s.due_at from {schema}.step s
                 where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= now()
                     and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
            ) s
            order by s.due_at
            offset (want - 1) / sample limit 1
        ) p;
        until := coalesce(until, now());
    end if;
    select array_agg(coalesce(q.steps, 0) order by l.place) into quotas
    from generate_subscripts(ids, 1) as l (place)
    left join (
        select c.place, count(*)::integer as steps
        from (
            select s.place
            from (
                select l.place, l.space_room, s.due_at, row_number() over (partition by l.space
                    order by s.due_at) as nth
                from (
                    -- No more of them than steps are wanted: the first step of each is due before whatever is in the
                    -- next.
                    select * from unnest(ids, firsts, rooms, space_rooms, spaces) with ordinality as l (id, first,
                        room, space_room, space, place)
                    where l.first <= until and l.room > 0 and l.space_room > 0
                    order by l.first limit want
                ) l
                cross join lateral (
                    (select s.due_at from {schema}.step s
                     where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= until
                         and s.due_at < 'infinity'
                     order by s.due_at limit l.room)
                    union all
                    (select s.due_at from {schema}.step s
                     where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= until
                         and s.due_at < 'infinity'
                     order by s.due_at limit l.room)
                ) s
            ) s
            where s.space_room is null or s.nth <= s.space_room
            order by s.due_at limit want
        ) c
        group by c.place
    ) q on q.place = l.place;
    return case when exists (select from unnest(quotas) as q (steps) where q.steps > 0) then quotas end;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.submit_tasks(flight uuid, channels text[], payloads text[], patient boolean, ids uuid[], templates integer[], priorities smallint[], identities uuid[], limits_ms bigint[], contexts text[], initiators text[], source_systems text[], reasons text[], correlations text[], parent_correlations text[], idempotency_keys text[], tag_lasts integer[], tags text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    made     uuid[];
    expected bigint;
    inserted bigint;
begin
    with added as (
        insert into {schema}.task_detail (task_id, identity, context, initiator, source_system, reason, correlation_id, parent_correlation_id, idempotency_key, tags)
        select n.id, n.identity, n.context, n.initiator, n.source_system, n.reason, n.correlation, n.parent_correlation, n.idempotency_key,
               tags[coalesce(lag(n.tag_last) over (order by n.place), 0) + 1:n.tag_last]
        from unnest(ids, identities, contexts, initiators, source_systems, reasons, correlations, parent_correlations, idempotency_keys, tag_lasts)
             with ordinality as n (id, identity, context, initiator, source_system, reason, correlation, parent_correlation, idempotency_key, tag_last, place)
        order by n.place
        on conflict do nothing
        returning task_id
    )
    select coalesce(array_agg(a.task_id), '{}') into made from added a;

    with added as (
        insert into {schema}.task (id, namespace_id, template_id, state, priority, unfinished, next_ordinal, due_at, ended_at)
        select n.id, t.namespace_id, t.id, case when d.steps = 0 then 'c' else 'o' end::"char", n.priority, d.steps, d.steps,
               case when d.steps = 0 then 'infinity' else coalesce(now() + n.limit_ms * interval '1 ms', 'infinity') end, case when d.steps = 0 then now() end
        from unnest(ids, templates, priorities, limits_ms) as n (id, template_id, priority, limit_ms)
        join {schema}.template t on t.id = n.template_id
        cross join lateral (select count(*)::integer as steps from {schema}.definition d where d.template_id = t.id) d
        where n.id = any (made)
        returning unfinished
    )
    select coalesce(sum(a.unfinished), 0) into expected from added a;

    insert into {schema}.step (task_id, ordinal, slot, lane_id, state, waiting, due_at, ready_at)
    select n.id, d.ordinal, d.ordinal, l.id, case when d.absent then 'a' when d.parents = '{}' then 'r' else 'p' end::"char", cardinality(d.parents),
           case when d.parents = '{}' and not d.absent then now() else 'infinity' end, case when d.parents = '{}' and not d.absent then now() end
    from unnest(ids, templates, priorities) as n (id, template_id, priority)
    join {schema}.template t on t.id = n.template_id
    join {schema}.definition d on d.template_id = t.id
    cross join lateral (select l.id from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = n.priority offset 0) l
    where n.id = any (made);
    get diagnostics inserted = row_count;
    if inserted <> expected then
        raise exception 'a lane is missing: % of % steps could be made', inserted, expected;
    end if;

    outcomes := array(
        select case when n.id = any (made) then 'o' else (select 'd' || k.task_id from {schema}.task_detail k where k.identity = n.identity) end
        from unnest(ids, identities) with ordinality as n (id, identity, place) order by n.place);
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.suspend_tasks(failed_tasks uuid[])
 RETURNS void
 LANGUAGE sql
 SET search_path TO 'reveille_own'
AS $function$
    -- Of a task in which something had failed before, nothing is left to be stopped.
    update {schema}.step s
    set due_at = case s.state when 'i' then s.due_at else 'infinity' end, state = case s.state when 'r' then 'p' else s.state end,
        lane_id = case s.state when 'i' then 0 else s.lane_id end, since = case s.state when 'r' then now() else s.since end
    from {schema}.task t
    where t.id = any (failed_tasks) and t.failed = 0 and s.task_id = t.id and s.state in ('r', 'w', 'i');
    update {schema}.task t set failed = t.failed + n.steps
    from (select f.id, count(*)::integer as steps from unnest(failed_tasks) as f (id) group by f.id) n where t.id = n.id
$function$;

CREATE OR REPLACE FUNCTION {schema}.tell(tasks uuid[], ordinals integer[], slots integer[], verdicts text[], verbs text[], bodies text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
declare
    of_tasks   uuid[];
    of_steps   integer[];
    of_reasons text[];
begin
    insert into {schema}.domain_event (task_id, ordinal, name, succeeded, payload)
    select n.task_id, n.ordinal, e.name, n.verdict = 'c', n.body
    from unnest(tasks, ordinals, slots, verdicts, bodies) with ordinality as n (task_id, ordinal, slot, verdict, body, place)
    join {schema}.task t on t.id = n.task_id
    cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
    cross join unnest(case n.verdict when 'c' then d.success_events else d.failure_events end) with ordinality as e (name, place)
    where n.verdict in ('c', 'e', 'p')
    order by n.place, e.place;

    select array_agg(n.task_id), array_agg(n.ordinal), array_agg(case when n.verdict = 'p' then 'part_failed' when n.verb = 'F' then 'not_retryable' else 'retries_exhausted' end) into of_tasks, of_steps, of_reasons
    from unnest(tasks, ordinals, slots, verdicts, verbs) as n (task_id, ordinal, slot, verdict, verb)
    join {schema}.task t on t.id = n.task_id
    cross join lateral (select d.* from {schema}.definition d where d.template_id = t.template_id and d.ordinal = n.slot offset 0) d
    where n.verdict = 'e' or n.verdict = 'p' and d.failure_strategy = 'i';
    if of_tasks is not null then
        perform {schema}.investigate(of_tasks, of_steps, of_reasons);
    end if;
end
$function$;
