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

create table {schema}.flight (
    id uuid not null,
    outcomes text[] not null,
    landed_at timestamp with time zone not null default now(),
    constraint flight_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

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
CREATE TRIGGER trg_orch_notify AFTER INSERT OR UPDATE OF visible_at ON {schema}.orchestrator_queue FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'reveille_own'::text)) EXECUTE FUNCTION {schema}.ring_by_trigger('{schema}_orch_work', '0');

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
CREATE TRIGGER trg_worker_notify AFTER INSERT OR UPDATE OF visible_at ON {schema}.worker_queue FOR EACH STATEMENT WHEN ((current_setting('search_path'::text) <> 'reveille_own'::text)) EXECUTE FUNCTION {schema}.ring_by_trigger('{schema}_worker_work', '');

CREATE OR REPLACE FUNCTION {schema}.abandon_instances(flight uuid, channels text[], payloads text[], patient boolean, instances text[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
    tids tid[];
begin
    if patient then
        perform from {schema}.instance_locks l where l.instance_id = any (instances) order by l.instance_id for update;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.instance_id is not null then case when h.lock_token is distinct from m.token or m.again then 'gone' else 'ok' end
                    when l.instance_id is null then 'gone' end as verdict
        from unnest(instances, tokens, again) with ordinality as m (instance_id, token, again, place)
        left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = m.instance_id offset 0) l on true
        left join lateral (select l.instance_id, l.lock_token, l.ctid as tid from {schema}.instance_locks l
                           where l.instance_id = m.instance_id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid order by j.place) into outcomes, tids from judged j;
    -- In a statement of its own, as in ack_work.
    with given_up as (
        delete from {schema}.instance_locks l
        where l.ctid = any (array(select j.tid from unnest(outcomes, tids) as j (verdict, tid) where j.verdict = 'ok'))
        returning l.instance_id, l.message_ids, greatest(now(), l.locked_until) as latest
    )
    -- They were due before the end of the lease, but perhaps not by now: the clock may have been set back.
    update {schema}.orchestrator_queue q
    set visible_at = coalesce(now() + m.delay_ms * interval '1 ms', q.visible_at),
        attempt_count = q.attempt_count + (not m.uncounted)::int
    from (select j.delay_ms, j.uncounted, q.tid
          from unnest(outcomes, instances, delays_ms, uncounted) as j (verdict, instance_id, delay_ms, uncounted)
          join given_up l on l.instance_id = j.instance_id
          cross join lateral (
              select q.ctid as tid from {schema}.orchestrator_queue q
              where q.instance_id = l.instance_id and (q.instance_id, q.visible_at) <= (l.instance_id, l.latest) and q.id = any (l.message_ids) offset 0) q
          where j.verdict = 'ok' and (j.delay_ms is not null or not j.uncounted)) m
    where q.ctid = m.tid;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.abandon_work(flight uuid, channels text[], payloads text[], patient boolean, instances text[], ids bigint[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
declare
    tids tid[];
begin
    if patient then
        perform from (select * from unnest(instances, ids) as m (instance_id, id) order by m.instance_id, m.id) m
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id for update) q;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.id is not null then case when h.lock_token is distinct from m.token or m.again then 'gone' else 'ok' end
                    when q.id is null then 'gone' end as verdict
        from unnest(instances, ids, tokens, again) with ordinality as m (instance_id, id, token, again, place)
        left join lateral (select q.id from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id offset 0) q on true
        left join lateral (select q.id, q.lock_token, q.ctid as tid from {schema}.worker_queue q
                           where q.instance_id = m.instance_id and q.id = m.id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid order by j.place) into outcomes, tids from judged j;
    -- In a statement of its own, as in ack_work.
    update {schema}.worker_queue q
    set lock_token = null, locked_until = null,
        visible_at = coalesce(now() + j.delay_ms * interval '1 ms', q.visible_at),
        attempt_count = q.attempt_count - j.uncounted::int
    from unnest(outcomes, tids, delays_ms, uncounted) as j (verdict, tid, delay_ms, uncounted)
    where j.verdict = 'ok' and q.ctid = j.tid;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.ack_instances(patient boolean, instances text[], tokens uuid[], again boolean[], executions bigint[], first_events bigint[], last_events bigint[], event_counts integer[], events text[], names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[], status_changes boolean[], custom_statuses text[], work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[], work_sessions text[], work_items text[], cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[], message_turns integer[], message_instances text[], message_delays bigint[], message_items text[], clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[])
 RETURNS text[]
 LANGUAGE plpgsql
AS $function$
declare
    outcomes  text[];
    cancelled tid[];
    fine      boolean[];
    tids      tid[];
    begun     boolean;
    changed   boolean;
    ended     text[];
begin
    if patient then
        perform from {schema}.instance_locks l where l.instance_id = any (instances) order by l.instance_id for update;
        perform from (select * from unnest(cancel_instances, cancel_executions, cancel_activities) as c (instance_id, execution_id, activity_id) order by 1, 2, 3) c
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = c.instance_id
                            and q.execution_id = c.execution_id and q.activity_id = c.activity_id for update) q;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.instance_id is not null then
                        case when h.lock_token is distinct from m.token or m.again then 'gone'
                             when h.locked_until <= clock_timestamp() then 'expired'
                             when m.first_event <= (select y.last_event_id from {schema}.history y
                                                    where y.instance_id = m.instance_id and y.execution_id = m.execution_id
                                                    order by y.event_id desc limit 1) then 'duplicate'
                             else 'ok' end
                    when l.instance_id is null then 'gone' end as verdict,
               x.ended is null or m.name is not null as begins,
               -- Events behind the end of an execution change how many it has.
               m.status is not null or m.status_change or m.pinned is not null or coalesce(x.ended, false) and m.first_event is not null as changes
        from unnest(instances, tokens, again, executions, first_events, names, statuses, status_changes, pinned) with ordinality
             as m (instance_id, token, again, execution_id, first_event, name, status, status_change, pinned, place)
        left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = m.instance_id offset 0) l on true
        left join lateral (select l.instance_id, l.lock_token, l.locked_until, l.ctid as tid from {schema}.instance_locks l
                           where l.instance_id = m.instance_id for update skip locked) h on true
        left join lateral (select e.event_count is not null as ended from {schema}.executions e
                           where e.instance_id = m.instance_id and e.execution_id = m.execution_id offset 0) x on true
    )
    select array_agg(j.verdict order by j.place), array_agg(coalesce(j.verdict = 'ok', false) order by j.place), array_agg(j.tid order by j.place),
           bool_or(j.begins), bool_or(j.changes)
    into outcomes, fine, tids, begun, changed from judged j;

    if cardinality(cancel_turns) > 0 then
        with asked as materialized (
            select c.turn, q.tid, h.tid as held
            from unnest(cancel_turns, cancel_instances, cancel_executions, cancel_activities) as c (turn, instance_id, execution_id, activity_id)
            cross join lateral (select q.ctid as tid, q.id from {schema}.worker_queue q where q.instance_id = c.instance_id
                                and q.execution_id = c.execution_id and q.activity_id = c.activity_id offset 0) q
            left join lateral (select h.ctid as tid from {schema}.worker_queue h
                               where h.instance_id = c.instance_id and h.id = q.id for update skip locked) h on true
        ), stuck as (
            -- A turn whose activity somebody holds travels alone.
            select distinct a.turn from asked a where a.held is null
        )
        select array_agg(case when s.turn is null then o.outcome end order by o.place),
               array_agg(coalesce(o.outcome = 'ok' and s.turn is null, false) order by o.place),
               (select array_agg(a.held) from asked a where outcomes[a.turn] = 'ok' and a.held is not null
                and not exists (select from stuck s where s.turn = a.turn))
        into outcomes, fine, cancelled
        from unnest(outcomes) with ordinality as o (outcome, place) left join stuck s on s.turn = o.place;
        delete from {schema}.worker_queue q where q.ctid = any (cancelled);
    end if;

    if true = any (fine) then
        -- By their place in the table, which cannot change: leases are locked, and messages belong to a lease. The clock may have been set back since.
        with leases as (
            delete from {schema}.instance_locks l
            where l.ctid = any (array(select m.tid from unnest(tids, fine) as m (tid, fine) where m.fine))
            returning l.instance_id, l.message_ids, greatest(now(), l.locked_until) as latest
        ), messages as (
            delete from {schema}.orchestrator_queue q where q.ctid = any (array(
                select q.tid from leases l cross join lateral (
                    select q.ctid as tid from {schema}.orchestrator_queue q
                    where q.instance_id = l.instance_id and (q.instance_id, q.visible_at) <= (l.instance_id, l.latest) and q.id = any (l.message_ids) offset 0) q))
        )
        insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
        select m.instance_id, m.execution_id, m.first_event, m.last_event, m.event_count, m.events
        from unnest(instances, fine, executions, first_events, last_events, event_counts, events)
             as m (instance_id, fine, execution_id, first_event, last_event, event_count, events)
        where m.fine and m.first_event is not null;

        if begun then
            insert into {schema}.executions (instance_id, execution_id)
            select m.instance_id, m.execution_id from unnest(instances, fine, executions) as m (instance_id, fine, execution_id)
            where m.fine
            on conflict do nothing;

            with upserted as (
                insert into {schema}.instances as i
                    (instance_id, orchestration_name, orchestration_version, parent_instance_id, current_execution_id, pinned_version)
                select m.instance_id, m.name, m.version, m.parent, m.execution_id, m.pinned
                from unnest(instances, fine, executions, names, versions, parents, pinned)
                     as m (instance_id, fine, execution_id, name, version, parent, pinned)
                where m.fine and m.name is not null and m.version is not null
                on conflict (instance_id) do update
                set orchestration_name = excluded.orchestration_name, orchestration_version = excluded.orchestration_version,
                    status = case when excluded.current_execution_id > i.current_execution_id then 'Running' else i.status end,
                    pinned_version = case when excluded.current_execution_id > i.current_execution_id then excluded.pinned_version
                                          when excluded.current_execution_id < i.current_execution_id then i.pinned_version
                                          else coalesce(excluded.pinned_version, i.pinned_version) end,
                    current_execution_id = greatest(i.current_execution_id, excluded.current_execution_id), updated_at = now()
                returning i.instance_id, i.generation
            ), waited as (
                -- Messages that waited for the start are due: it has come.
                update {schema}.orchestrator_queue q set visible_at = now() where q.ctid = any (array(
                    select q.tid from upserted u cross join lateral (
                        select q.ctid as tid from {schema}.orchestrator_queue q
                        where q.instance_id = u.instance_id and (q.instance_id, q.visible_at) >= (u.instance_id, 'infinity') offset 0) q))
                returning q.instance_id
            )
            select array_agg(case when o.outcome <> 'ok' or u.generation is null then o.outcome
                                  when exists (select from waited w where w.instance_id = o.instance_id) then 'more ' || u.generation
                                  else 'ok ' || u.generation end order by o.place)
            into outcomes
            from unnest(outcomes, instances) with ordinality as o (outcome, instance_id, place)
            left join upserted u on u.instance_id = o.instance_id;
        end if;

        if changed or begun then
            update {schema}.instances i
            set status = case when m.execution_id < i.current_execution_id then i.status
                              when m.status is not null then m.status
                              when m.execution_id > i.current_execution_id then 'Running'
                              else i.status end,
                pinned_version = case when m.execution_id > i.current_execution_id then m.pinned
                                      when m.execution_id < i.current_execution_id then i.pinned_version
                                      else coalesce(m.pinned, i.pinned_version) end,
                current_execution_id = greatest(i.current_execution_id, m.execution_id),
                custom_status = case when m.status_change then m.custom_status else i.custom_status end,
                custom_status_version = i.custom_status_version + m.status_change::int,
                updated_at = now()
            from unnest(instances, fine, executions, pinned, statuses, status_changes, custom_statuses)
                 as m (instance_id, fine, execution_id, pinned, status, status_change, custom_status)
            cross join lateral (select k.ctid as tid from {schema}.instances k where k.instance_id = m.instance_id offset 0) k
            where m.fine and i.ctid = k.tid
              and (m.execution_id > i.current_execution_id or m.status is not null or m.status_change
                   or m.pinned is distinct from i.pinned_version and m.pinned is not null);
        end if;

        if changed then
            ended := array(select m.instance_id from unnest(instances, fine, statuses) as m (instance_id, fine, status)
                           where m.fine and m.status <> 'Running');
            update {schema}.executions e
            set status = coalesce(m.status, e.status), output = case when m.status is null then e.output else m.output end,
                completed_at = case when m.status is null then e.completed_at when m.status <> 'Running' then now() end,
                event_count = case when coalesce(m.status, e.status) <> 'Running' then
                    coalesce((select sum(h.event_count) from {schema}.history h
                              where h.instance_id = m.instance_id and h.execution_id = m.execution_id), 0) end
            from unnest(instances, fine, executions, statuses, outputs, first_events)
                 as m (instance_id, fine, execution_id, status, output, first_event)
            cross join lateral (select k.ctid as tid from {schema}.executions k
                                where k.instance_id = m.instance_id and k.execution_id = m.execution_id offset 0) k
            where m.fine and e.ctid = k.tid and (m.status is not null or e.event_count is not null and m.first_event is not null);
        end if;

        if cardinality(work_turns) > 0 then
            insert into {schema}.worker_queue (visible_at, execution_id, activity_id, lane, instance_id, session_id, work_item)
            select now() + w.place * interval '1 us', w.execution_id, w.activity_id, w.lane, w.instance_id, w.session_id, w.item
            from unnest(work_turns, work_instances, work_executions, work_activities, work_lanes, work_sessions, work_items) with ordinality
                 as w (turn, instance_id, execution_id, activity_id, lane, session_id, item, place)
            where fine[w.turn] order by w.place;
        end if;
        if cardinality(message_turns) > 0 then
            insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
            select s.instance_id, now() + s.delay_ms * interval '1 ms' + s.place * interval '1 us', s.item
            from unnest(message_turns, message_instances, message_delays, message_items) with ordinality
                 as s (turn, instance_id, delay_ms, item, place)
            where fine[s.turn] order by s.place;
        end if;

        if cardinality(clear_turns) > 0 then
            insert into {schema}.kv_delta as d (instance_id, key, value, last_updated_at_ms)
            select s.instance_id, s.key, null, (extract(epoch from now()) * 1000)::bigint
            from unnest(clear_turns) as c (turn)
            join lateral (select k.instance_id, k.key from {schema}.kv_store k where k.instance_id = instances[c.turn]
                          union select k.instance_id, k.key from {schema}.kv_delta k where k.instance_id = instances[c.turn]) s on true
            where fine[c.turn]
            on conflict (instance_id, key) do update set value = null, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
        if cardinality(key_turns) > 0 then
            insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
            select instances[k.turn], k.key, k.value, coalesce(k.at, (extract(epoch from now()) * 1000)::bigint)
            from unnest(key_turns, key_names, key_values, key_times) as k (turn, key, value, at)
            where fine[k.turn]
            on conflict (instance_id, key) do update
            set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
        -- An execution that ends leaves its keys to the next.
        if cardinality(ended) > 0 and exists (select from {schema}.kv_delta d where d.instance_id = any (ended)) then
            delete from {schema}.kv_store s using {schema}.kv_delta d
            where d.instance_id = any (ended) and d.value is null and s.instance_id = d.instance_id and s.key = d.key;
            with moved as (delete from {schema}.kv_delta d where d.instance_id = any (ended) returning d.*)
            insert into {schema}.kv_store (instance_id, key, value, last_updated_at_ms)
            select d.instance_id, d.key, d.value, d.last_updated_at_ms from moved d where d.value is not null
            on conflict (instance_id, key) do update
            set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
    end if;
    return outcomes;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.ack_work(patient boolean, instances text[], ids bigint[], tokens uuid[], again boolean[], receivers text[], items text[])
 RETURNS text[]
 LANGUAGE plpgsql
AS $function$
declare
    outcomes text[];
    tids     tid[];
    sessions text[];
begin
    if patient then
        perform from (select * from unnest(instances, ids) as m (instance_id, id) order by m.instance_id, m.id) m
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id for update) q;
    end if;
    with judged as materialized (
        select a.place, h.session_id, h.tid,
               case when h.id is not null then case when h.lock_token is distinct from a.token or a.again then 'gone'
                                                    when h.locked_until <= clock_timestamp() then 'expired'
                                                    else 'ok' end
                    when q.id is null then 'gone' end as verdict
        from unnest(instances, ids, tokens, again) with ordinality as a (instance_id, id, token, again, place)
        left join lateral (select q.id from {schema}.worker_queue q where q.instance_id = a.instance_id and q.id = a.id offset 0) q on true
        left join lateral (select q.id, q.lock_token, q.locked_until, q.session_id, q.ctid as tid from {schema}.worker_queue q
                           where q.instance_id = a.instance_id and q.id = a.id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid) filter (where j.verdict = 'ok'),
           array_agg(distinct j.session_id) filter (where j.verdict = 'ok' and j.session_id is not null)
    into outcomes, tids, sessions from judged j;
    if tids is not null then
        -- By their place in the table, which cannot change while they are locked. In a statement of its own: the one that locked them does not see
        -- what a renewal wrote while it began, and would leave such a row where it is.
        with ended as (
            delete from {schema}.worker_queue q where q.ctid = any (tids)
        )
        insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
        select j.receiver, now() + j.place * interval '1 us', j.item
        from unnest(outcomes, receivers, items) with ordinality as j (verdict, receiver, item, place)
        where j.verdict = 'ok' and j.item is not null order by j.place;
    end if;
    if sessions is not null then
        -- In the order of a renewal, which has several too.
        if cardinality(sessions) > 1 then
            perform from {schema}.sessions s where s.session_id = any (sessions) and s.locked_until > now() order by s.session_id for update;
        end if;
        update {schema}.sessions s set last_activity_at = now() where s.session_id = any (sessions) and s.locked_until > now();
    end if;
    return outcomes;
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

CREATE OR REPLACE FUNCTION {schema}.claim_instances(wanted integer, lease_ms bigint, min_version bigint, max_version bigint, floor_us bigint)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, instance_id text, lock_token uuid, attempt integer, messages text[], orchestration_name text, orchestration_version text, execution_id bigint, generation bigint, last_event_id bigint, had_executions boolean, blocked boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
    bound   timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    mine    text[];
    stale   boolean;
    taken   integer;
    soonest timestamptz;
    freed   timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a crash of the server is a turn taken twice, of which one is acked: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);

    -- Several messages of one instance lie side by side, so a few times as many as wanted are read. What is due and not taken is wanted by
    -- nobody, or in somebody's hands this moment: then the next is due now. Otherwise it is a message of the future, or one whose
    -- instance is leased to somebody until then.
    with due as materialized (
        select q.instance_id, q.visible_at, q.id, l.locked_until is not null as stale from {schema}.orchestrator_queue q
        left join lateral (select l.locked_until from {schema}.instance_locks l where l.instance_id = q.instance_id offset 0) l on true
        left join lateral (select i.pinned_version from {schema}.instances i where i.instance_id = q.instance_id offset 0) i on true
        where q.visible_at <= now() and q.visible_at >= bound and coalesce(l.locked_until <= now(), true)
          and (min_version is null or coalesce(i.pinned_version between min_version and max_version, true))
        order by q.visible_at limit wanted * 8
    ), ranked as materialized (
        select d.instance_id, bool_or(d.stale) as stale from due d group by d.instance_id order by min(d.visible_at), min(d.id)
    ), locked as materialized (
        select r.instance_id, r.stale from ranked r
        where pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || r.instance_id, 1))
          -- An ended lease that somebody has locked, itself or a message of it, must not take the place of an instance that is free.
          and (not r.stale or (
               exists (select from {schema}.instance_locks l where l.instance_id = r.instance_id for update skip locked)
               and cardinality(array(select 1 from {schema}.orchestrator_queue q
                                     where q.instance_id = r.instance_id and (q.instance_id, q.visible_at) <= (r.instance_id, now()) for update skip locked))
                   = (select count(*) from {schema}.orchestrator_queue q
                      where q.instance_id = r.instance_id and (q.instance_id, q.visible_at) <= (r.instance_id, now()))))
        limit wanted
    ), counted as materialized (
        select array_agg(k.instance_id) as mine, bool_or(k.stale) as stale, count(*) as taken from locked k
    )
    select c.mine, c.stale,
           case when (select count(*) from ranked) > c.taken or (select count(*) from due) >= wanted * 8 then now()
                else (select q.visible_at from {schema}.orchestrator_queue q
                      where q.visible_at > now() and q.visible_at < 'infinity' order by q.visible_at limit 1) end,
           case when (select count(*) from ranked) <= c.taken and (select count(*) from due) < wanted * 8 then
               (select min(l.locked_until) from {schema}.orchestrator_queue q
                cross join lateral (select l.locked_until from {schema}.instance_locks l
                                    where l.instance_id = q.instance_id and l.locked_until > now() offset 0) l
                where q.visible_at <= now() and q.visible_at >= bound) end
    into mine, stale, soonest, freed from counted c;
    blocked := freed is not null;
    soonest := least(soonest, freed);

    if mine is not null then
        if stale then
            -- Leases that have ended: their attempts count now.
            with over as (
                delete from {schema}.instance_locks l where l.instance_id = any (mine) and l.locked_until <= now()
                returning l.instance_id, l.message_ids
            )
            update {schema}.orchestrator_queue q set attempt_count = q.attempt_count + 1 where q.ctid = any (array(
                select q.tid from over o cross join lateral (
                    select q.ctid as tid from {schema}.orchestrator_queue q
                    where q.instance_id = o.instance_id and (q.instance_id, q.visible_at) <= (o.instance_id, now()) and q.id = any (o.message_ids) offset 0) q));
        end if;

        return query
        with batch as materialized (
            select m.instance_id, b.* from unnest(mine) as m (instance_id)
            cross join lateral (
                select min(q.visible_at) as due, max(q.attempt_count) + 1 as attempt, array_agg(q.id) as ids,
                       array_agg(q.work_item order by q.visible_at, q.id) as items, bool_or(q.kind = 's') as starts
                from {schema}.orchestrator_queue q where q.instance_id = m.instance_id and (q.instance_id, q.visible_at) <= (m.instance_id, now())) b
            where b.due is not null
        ), known as materialized (
            select b.*, i.orchestration_name, i.orchestration_version, i.generation, i.current_execution_id > 1 or i.status <> 'Running' as had_executions,
                   coalesce(i.current_execution_id, (select max(e.execution_id) from {schema}.executions e
                                                     where e.instance_id = b.instance_id)) as execution_id
            from batch b
            left join lateral (select * from {schema}.instances i where i.instance_id = b.instance_id offset 0) i on true
            -- A lease that this statement sees counts, although its ack may commit before the insert: then the messages seen are gone too.
            left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = b.instance_id offset 0) l on true
            where l.instance_id is null
        ), taken as (
            insert into {schema}.instance_locks (instance_id, lock_token, locked_until, message_ids)
            select k.instance_id, gen_random_uuid(), now() + lease_ms * interval '1 ms', k.ids
            from known k where k.starts or k.execution_id is not null
            on conflict (instance_id) do nothing
            returning instance_locks.instance_id, instance_locks.lock_token
        )
        select null::float8, (extract(epoch from greatest(k.due, 'epoch')) * 1000000)::bigint, k.instance_id, t.lock_token, k.attempt, k.items,
               k.orchestration_name, k.orchestration_version, k.execution_id, k.generation,
               (select h.last_event_id from {schema}.history h
                where h.instance_id = k.instance_id and h.execution_id = k.execution_id order by h.event_id desc limit 1), k.had_executions, null::boolean
        from taken t join known k on k.instance_id = t.instance_id order by k.due;
        get diagnostics taken = row_count;

        if taken < cardinality(mine) then
            -- Messages to instances that nobody has started yet: they wait for the start, out of the way. If all that are due are to a queue, and nobody is
            -- going to start the instance, they are dropped.
            with lost as materialized (
                select q.instance_id, bool_and(q.kind = 'q' or q.kind = 'm' and q.visible_at > now()) as droppable,
                       array_agg(q.tid) filter (where q.visible_at <= now()) as tids
                from unnest(mine) as m (instance_id)
                cross join lateral (select q.instance_id, q.kind, q.visible_at, q.ctid as tid from {schema}.orchestrator_queue q
                                    where q.instance_id = m.instance_id and (q.instance_id, q.visible_at) < (m.instance_id, 'infinity') offset 0) q
                where not exists (select from {schema}.instances i where i.instance_id = m.instance_id)
                  and not exists (select from {schema}.executions e where e.instance_id = m.instance_id)
                  -- Nor those that somebody has leased with the start, which has come since this claim began.
                  and not exists (select from {schema}.instance_locks l where l.instance_id = m.instance_id)
                group by q.instance_id having not bool_or(q.kind = 's' and q.visible_at <= now())
            ), dropped as (
                delete from {schema}.orchestrator_queue q
                where q.ctid = any (array(select t.tid from lost, unnest(lost.tids) as t (tid) where lost.droppable))
            )
            update {schema}.orchestrator_queue q set visible_at = 'infinity'
            where q.ctid = any (array(select t.tid from lost, unnest(lost.tids) as t (tid) where not lost.droppable));
            soonest := now();
        end if;
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.claim_work(lanes text[], lease_ms bigint, owners text[], session_ms bigint[], ahead integer, floor_us bigint)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, seat integer, instance_id text, id bigint, lock_token uuid, attempt integer, work_item text)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
#variable_conflict use_column
declare
    bound     timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    takers    text[] := array_remove(owners, null);
    wanted    integer := cardinality(owners);
    ids       bigint[];
    tids      tid[];
    sessions  text[];
    seats     integer[];
    found     record;
    place     integer;
    free      boolean[];
    holder    text;
    soonest   timestamptz;
begin
    perform {schema}.age_plans();
    -- A claim lost in a crash of the server is an activity executed twice, which is allowed: its commit need not be flushed.
    perform set_config('synchronous_commit', 'off', true);
    -- Who may take an activity of a session changes from look to look, so what one passes by is not for another to pass by.
    if (floor_us is not null or ahead > 0) and exists (select from {schema}.worker_queue q where q.session_id is not null) then
        bound := '-infinity';
    else
        wanted := wanted + ahead;
    end if;
    if lanes is null then
        with recursive lane as (
            (select q.lane from {schema}.worker_queue q order by q.lane limit 1)
            union all
            select (select q.lane from {schema}.worker_queue q where q.lane > lane.lane order by q.lane limit 1)
            from lane where lane.lane is not null
        )
        select coalesce(array_agg(lane.lane), '{}') into lanes from lane where lane.lane is not null;
    end if;

    -- What may be taken, oldest first, and whether that is all that may be. More is read than wanted, because others may have the first in their hands
    -- this moment. What is due and not locked here is wanted by nobody, or in such hands: then the next is due now. Otherwise it is one of the future,
    -- or one that is leased until then, itself or its session: the later of both.
    with due as materialized (
        select c.* from unnest(lanes) as l (lane) cross join lateral (
            select q.instance_id, q.id, q.visible_at, q.session_id from {schema}.worker_queue q
            where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
              and (q.locked_until is null or q.locked_until <= now())
              and (q.session_id is null
                   or takers <> '{}' and coalesce((select s.worker_id = any (takers) from {schema}.sessions s
                                                   where s.session_id = q.session_id and s.locked_until > now()), true))
            order by q.visible_at limit wanted * 2 + 16) c
        order by c.visible_at, c.id limit wanted * 2 + 16
    ), mine as materialized (
        -- No more than wanted are locked: in the order in which they come, because sorting or numbering them here would lock them all first.
        select d.id, d.session_id, d.visible_at, q.tid from due d
        cross join lateral (select q.ctid as tid from {schema}.worker_queue q where q.instance_id = d.instance_id and q.id = d.id
                            and (q.locked_until is null or q.locked_until <= now()) for update skip locked) q
        limit wanted
    ), counted as materialized (
        select array_agg(m.id order by m.place) as ids, array_agg(m.tid order by m.place) as tids,
               array_agg(m.session_id order by m.place) as sessions, array_agg(m.place::int order by m.place) as seats,
               count(m.session_id) > 0 as sessionful, count(*) as taken
        from (select m.*, row_number() over (order by m.visible_at, m.id) as place from mine m) m
    )
    select c.ids, c.tids, c.sessions, case when not c.sessionful then c.seats end,
           case when (select count(*) from due) > c.taken then now()
                else (select min(least(future.visible_at, leased.until)) from unnest(lanes) as l (lane)
                      left join lateral (
                          select q.visible_at from {schema}.worker_queue q
                          where q.lane = l.lane and q.visible_at > now() order by q.visible_at limit 1) future on true
                      left join lateral (
                          select min(greatest(q.locked_until, (select s.locked_until from {schema}.sessions s
                                                               where s.session_id = q.session_id and s.worker_id <> all (takers)))) as until
                          from {schema}.worker_queue q
                          where q.lane = l.lane and q.visible_at <= now() and q.visible_at >= bound
                            and (q.session_id is null or takers <> '{}')
                            and (q.locked_until > now()
                                 or exists (select from {schema}.sessions s where s.session_id = q.session_id
                                            and s.locked_until > now() and s.worker_id <> all (takers)))) leased on true) end
    into ids, tids, sessions, seats, soonest from counted c;

    if ids is not null and seats is null then
        -- With sessions, who gets what is decided one by one.
        free := array_fill(true, array[wanted]);
        seats := array_fill(null::integer, array[cardinality(ids)]);
        for found in select m.place::int, m.session_id from unnest(sessions) with ordinality as m (session_id, place) loop
            if found.session_id is null then
                place := array_position(free, true);
            else
                -- Lock first, decide next: whoever had this lock before may have taken the session.
                soonest := now();
                continue when not pg_try_advisory_xact_lock(hashtextextended({schema_text} || '/' || found.session_id, 2));
                continue when not exists (select from {schema}.sessions s where s.session_id = found.session_id for update skip locked)
                    and exists (select from {schema}.sessions s where s.session_id = found.session_id);
                holder := (select s.worker_id from {schema}.sessions s where s.session_id = found.session_id and s.locked_until > now());
                place := (select min(s.place) from unnest(owners, free) with ordinality as s (owner, free, place)
                          where s.free and s.owner is not null and (holder is null or s.owner = holder));
                continue when place is null;
                insert into {schema}.sessions as s (session_id, worker_id, locked_until, last_activity_at)
                values (found.session_id, owners[place], now() + session_ms[place] * interval '1 ms', now())
                on conflict (session_id) do update
                set worker_id = excluded.worker_id, locked_until = excluded.locked_until, last_activity_at = now();
            end if;
            exit when place is null;
            free[place] := false;
            seats[found.place] := place;
        end loop;
    end if;

    if ids is not null then
        return query
        -- By their place in the table, which cannot change while they are locked.
        update {schema}.worker_queue q
        set lock_token = gen_random_uuid(), locked_until = now() + lease_ms * interval '1 ms', attempt_count = q.attempt_count + 1
        where q.ctid = any (tids) and seats[array_position(ids, q.id)] is not null
        returning null::float8, (extract(epoch from greatest(q.visible_at, 'epoch')) * 1000000)::bigint, seats[array_position(ids, q.id)] - 1, q.instance_id, q.id,
                  q.lock_token, q.attempt_count, q.work_item;
    end if;
    next_due_ms := extract(epoch from soonest - now()) * 1000;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.commit(flight uuid, channels text[], payloads text[], patient boolean, instances text[], tokens uuid[], again boolean[], executions bigint[], first_events bigint[], last_events bigint[], event_counts integer[], events text[], names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[], status_changes boolean[], custom_statuses text[], work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[], work_sessions text[], work_items text[], cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[], message_turns integer[], message_instances text[], message_delays bigint[], message_items text[], clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[], done_instances text[], done_ids bigint[], done_tokens uuid[], done_again boolean[], done_receivers text[], done_items text[], sent_instances text[], sent_delays bigint[], sent_items text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_hashjoin TO 'off'
 SET enable_mergejoin TO 'off'
AS $function$
begin
    -- Leases and activities that somebody has locked are passed by. Nobody should lock anything else; should somebody do it all the same, the
    -- flight is given up soon and its members travel alone, so that only those concerned wait.
    if not patient then
        perform set_config('lock_timeout', '1s', true);
    end if;
    outcomes := '{}';
    if cardinality(instances) > 0 then
        outcomes := {schema}.ack_instances(patient, instances, tokens, again, executions, first_events, last_events,
            event_counts, events, names, versions, parents, pinned, statuses, outputs, status_changes, custom_statuses, work_turns,
            work_instances, work_executions, work_activities, work_lanes, work_sessions, work_items, cancel_turns, cancel_instances,
            cancel_executions, cancel_activities, message_turns, message_instances, message_delays, message_items, clear_turns,
            key_turns, key_names, key_values, key_times);
    end if;
    if cardinality(done_instances) > 0 then
        outcomes := outcomes || {schema}.ack_work(patient, done_instances, done_ids, done_tokens, done_again, done_receivers, done_items);
    end if;
    if cardinality(sent_instances) > 0 then
        perform {schema}.enqueue(sent_instances, sent_delays, sent_items);
        outcomes := outcomes || array_fill('ok'::text, array[cardinality(sent_instances)]);
    end if;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.delete_instances(ids text[], force boolean, OUT problem text, OUT subject text, OUT instances bigint, OUT executions bigint, OUT events bigint, OUT messages bigint)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    if cardinality(ids) <= 1000 then
        perform pg_advisory_xact_lock(hashtextextended({schema_text} || '/' || i.id, 1)) from (select unnest(ids) as id order by 1) i;
    else
        -- Against row locks too: an ack that has some would wait for this lock, and this for its rows.
        lock table {schema}.instance_locks in exclusive mode;
    end if;
    perform from {schema}.instance_locks l where l.instance_id = any (ids) order by l.instance_id for update;
    perform from {schema}.instances i where i.instance_id = any (ids) order by i.instance_id collate "C" for update;
    if not force then
        select 'running', i.instance_id into problem, subject from {schema}.instances i
        where i.instance_id = any (ids) and i.status = 'Running' order by 2 limit 1;
    end if;
    if problem is null then
        select 'orphan', i.instance_id into problem, subject from {schema}.instances i
        where i.parent_instance_id = any (ids) and i.instance_id <> all (ids) order by 2 limit 1;
    end if;
    if problem is not null then
        return;
    end if;
    delete from {schema}.instance_locks l where l.instance_id = any (ids);
    -- Activities before messages: one that is being acked sends one more.
    perform from {schema}.worker_queue q where q.instance_id = any (ids) order by q.instance_id, q.id for update;
    with gone as (delete from {schema}.worker_queue q where q.instance_id = any (ids) returning 1) select count(*) into messages from gone;
    with gone as (delete from {schema}.orchestrator_queue q where q.instance_id = any (ids) returning 1) select messages + count(*) into messages from gone;
    with gone as (delete from {schema}.history h where h.instance_id = any (ids) returning h.event_count)
    select coalesce(sum(event_count), 0) into events from gone;
    with gone as (delete from {schema}.executions e where e.instance_id = any (ids) returning 1) select count(*) into executions from gone;
    delete from {schema}.kv_store k where k.instance_id = any (ids);
    delete from {schema}.kv_delta k where k.instance_id = any (ids);
    with gone as (delete from {schema}.instances i where i.instance_id = any (ids) returning 1) select count(*) into instances from gone;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.enqueue(instances text[], delays_ms bigint[], items text[])
 RETURNS void
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    -- A microsecond apart, so that the order by due time is the order given.
    insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
    select m.instance, now() + m.delay_ms * interval '1 ms' + m.place * interval '1 us', m.item
    from unnest(instances, delays_ms, items) with ordinality as m (instance, delay_ms, item, place)
    order by m.place;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.enqueue_work(flight uuid, channels text[], payloads text[], patient boolean, instances text[], executions bigint[], activities bigint[], lanes text[], sessions text[], items text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    insert into {schema}.worker_queue (visible_at, execution_id, activity_id, lane, instance_id, session_id, work_item)
    select now() + m.place * interval '1 us', m.execution, m.activity, m.lane, m.instance, m.session, m.item
    from unnest(instances, executions, activities, lanes, sessions, items) with ordinality
         as m (instance, execution, activity, lane, session, item, place)
    order by m.place;
    outcomes := array_fill('ok'::text, array[cardinality(instances)]);
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.events(instance text)
 RETURNS TABLE(execution_id bigint, event_id bigint, event_type text, event json)
 LANGUAGE sql
 STABLE
AS $function$
    select h.execution_id, (e.event ->> 'event_id')::bigint, e.event ->> 'type', e.event
    from {schema}.history h cross join json_array_elements(
        case when strpos(h.events, '\u0000') = 0 then h.events
             else regexp_replace(h.events, '(?<!\\)((?:\\\\)*)\\u0000', '\1\\ufffd', 'g') end::json) with ordinality as e (event, place)
    where h.instance_id = instance order by h.execution_id, h.event_id, e.place
$function$;

CREATE OR REPLACE FUNCTION {schema}.history_changed()
 RETURNS trigger
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    if tg_op = 'TRUNCATE' then
        update {schema}.instances set generation = nextval('{schema}.generation');
    else
        update {schema}.instances i set generation = nextval('{schema}.generation')
        where i.instance_id in (select o.instance_id from changed o);
    end if;
    return null;
end
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

CREATE OR REPLACE FUNCTION {schema}.look_up(names text[], wants_events boolean[], known_executions bigint[], known_generations bigint[], known_last bigint[], seen_versions bigint[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
    execution  bigint;
    generation bigint;
    version    bigint;
    custom     text;
    last       bigint;
    rows       text[];
begin
    for place in 1 .. cardinality(names) loop
        select i.current_execution_id, i.generation, i.custom_status_version,
               case when i.custom_status_version > seen_versions[place] then i.custom_status end
        into execution, generation, version, custom from {schema}.instances i where i.instance_id = names[place];
        if not found then
            outcomes[place] := case when wants_events[place] and (select true from {schema}.history h where h.instance_id = names[place] limit 1)
                                    then '{"orphan": true}' else '{}' end;
            continue;
        end if;
        if not wants_events[place] then
            last := null;
            rows := null;
        else
            select max(h.last_event_id), array_agg(h.events) into last, rows
            from (select h.last_event_id, h.events from {schema}.history h
                  where h.instance_id = names[place] and h.execution_id = execution and h.event_id > case
                      when execution = known_executions[place] and generation = known_generations[place] then known_last[place] else 0 end
                  order by h.event_id) h;
        end if;
        outcomes[place] := json_build_object('execution', execution, 'generation', generation, 'last', last, 'rows', rows,
                                             'version', version, 'custom', custom);
    end loop;
    backend := pg_backend_pid();
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.prune_executions(ids text[], keep_last bigint, before_ms bigint, OUT instances bigint, OUT executions bigint, OUT events bigint)
 RETURNS record
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    perform from {schema}.instance_locks l where l.instance_id = any (ids) order by l.instance_id for update;
    perform from {schema}.instances i where i.instance_id = any (ids) order by i.instance_id collate "C" for update;
    select count(*) into instances from {schema}.instances i where i.instance_id = any (ids);
    with old as materialized (
        select e.instance_id, e.execution_id, e.status, e.completed_at,
               row_number() over (partition by e.instance_id order by e.execution_id desc) as newest
        from {schema}.executions e where e.instance_id = any (ids)
    ), gone as (
        delete from {schema}.executions e using old o join {schema}.instances i on i.instance_id = o.instance_id
        where e.instance_id = o.instance_id and e.execution_id = o.execution_id
          and o.execution_id <> i.current_execution_id and o.status <> 'Running'
          and (keep_last is null or o.newest > keep_last)
          and (before_ms is null or o.completed_at < to_timestamp(before_ms / 1000.0))
        returning e.instance_id, e.execution_id
    ), forgotten as (
        delete from {schema}.history h using gone g where h.instance_id = g.instance_id and h.execution_id = g.execution_id
        returning h.event_count
    )
    select (select count(*) from gone), (select coalesce(sum(f.event_count), 0) from forgotten f) into executions, events;
end
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
