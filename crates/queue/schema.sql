-- What the migrations and functions lead to, as the server describes it. Made by a test: do not edit.

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

create table {schema}.flight (
    id uuid not null,
    outcomes text[] not null,
    landed_at timestamp with time zone not null default now(),
    constraint flight_pkey PRIMARY KEY (id)
) with (autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=5000, vacuum_truncate=off);

create table {schema}.maintenance (
    name text not null,
    enabled boolean not null,
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
    encryption_enabled boolean not null default false,
    max_wait_time_seconds integer not null default 0,
    revision integer not null default 0,
    created_at timestamp with time zone not null default now(),
    charge_expired_leases boolean not null default true,
    consumed_retention_seconds integer not null default 86400,
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

CREATE OR REPLACE FUNCTION {schema}.ack(flight uuid, channels text[], payloads text[], patient boolean, partitions bigint[], groups text[], leases uuid[], lasts integer[], hashes bigint[], statuses text[], errors text[])
 RETURNS TABLE(outcomes text[], backend integer)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET enable_mergejoin TO 'off'
 SET jit TO 'off'
AS $function$
#variable_conflict use_column
declare
    member   record;
    mine     record;
    message  record;
    verdicts text[];
    low      bigint;
    place    bigint;
    charged  integer;
    stopped  text;
    done     boolean;
    due      timestamptz;
begin
    outcomes := array_fill(null::text, array[cardinality(partitions)]);
    for member in
        select m.*, coalesce(lag(m.last) over (order by m.place), 0) + 1 as first
        from unnest(partitions, groups, leases, lasts) with ordinality as m (partition_id, group_name, lease_id, last, place) order by m.place
    loop
        if patient and member.lease_id is not null then
            perform from {schema}.cursor c where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id for update;
        end if;
        -- A lease says itself whose it is, while it lasts.
        select c.*, k.name, q.id as queue_id, q.retry_limit, q.retry_delay_ms, q.delayed_processing_seconds, q.window_buffer_seconds into mine
        from {schema}.cursor c
        join {schema}.consumer k on k.id = c.consumer_id
        join {schema}.queue q on q.id = k.queue_id
        where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id for update of c skip locked;
        if not found then
            continue when not patient and exists (
                select from {schema}.cursor c join {schema}.consumer k on k.id = c.consumer_id
                where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id);
            select p.queue_id, k.id, k.name, q.retry_limit, q.retry_delay_ms, q.delayed_processing_seconds, q.window_buffer_seconds into message
            from {schema}.partition p
            join {schema}.queue q on q.id = p.queue_id
            left join {schema}.consumer k on k.queue_id = q.id and case
                -- A lease that was the last says whose it was.
                when member.group_name is null and member.lease_id is not null then k.id = (
                    select c.consumer_id from {schema}.cursor c where c.partition_id = p.id and c.last_lease = member.lease_id order by c.version desc limit 1)
                else md5(k.name) = md5(coalesce(member.group_name, '__QUEUE_MODE__')) and k.name = coalesce(member.group_name, '__QUEUE_MODE__') end
            where p.id = member.partition_id;
            if message.id is null then
                outcomes[member.place] := case when not found then 'p' when member.lease_id is null then 'g'
                                               else 'l' || repeat('l', member.last - member.first + 1) end;
                continue;
            end if;
            if patient then
                perform from {schema}.cursor c
                where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update;
            end if;
            select c.*, message.name, message.queue_id, message.retry_limit, message.retry_delay_ms, message.delayed_processing_seconds,
                   message.window_buffer_seconds into mine
            from {schema}.cursor c
            where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update skip locked;
            if not found then
                outcomes[member.place] := case when patient then 'g' end;
                continue;
            end if;
        end if;
        outcomes[member.place] := mine.name;
        place := mine.position;
        charged := mine.retries;
        stopped := null;
        done := member.lease_id is not null and member.lease_id is distinct from mine.lease_id;
        verdicts := array_fill('u'::text, array[member.last - member.first + 1]);
        -- From where the messages can be: of a lease that is over, up to a batch before.
        low := case when done then mine.position - 10000 else mine.position end;
        for message in
            select m.* from unnest(
                statuses[member.first:member.last], errors[member.first:member.last],
                {schema}.locate(member.partition_id, low,
                                case when mine.lease_id is null then mine.position + 10000 when done then mine.position else mine.lease_end end,
                                hashes[member.first:member.last])) with ordinality as m (status, error, message_offset, place)
            where m.message_offset is not null order by m.message_offset
        loop
            verdicts[message.place] := case
                -- An ack that was heard before, or that a later one covered.
                when message.message_offset < mine.position and case when done then mine.last_lease = member.lease_id
                                                                     else message.status in ('c', 'd') end then 'o'
                -- Or one that let the messages come again, which nobody has read since.
                when done and message.status in ('f', 'r') and mine.last_lease = member.lease_id and mine.lease_id is null then 'o'
                when done then 'l'
                when message.message_offset < mine.position or mine.lease_id is not null and message.message_offset >= mine.lease_end then 'u'
                when stopped is not null and message.status in ('c', 'd') then 'b'
                else 'o' end;
            continue when verdicts[message.place] <> 'o' or done or stopped is not null or message.message_offset < mine.position;
            if message.status = 'f' and charged >= mine.retry_limit and {schema}.first_live(member.partition_id, place) >= message.message_offset then
                verdicts[message.place] := 'd';
            elsif message.status = 'd' then
                verdicts[message.place] := 'd';
            elsif message.status in ('f', 'r') then
                stopped := message.status;
                if message.status = 'f' then
                    charged := charged + 1;
                    -- Not at what was deleted before it: what is charged is charged to the first that is read.
                    place := greatest(place, least({schema}.first_live(member.partition_id, place), message.message_offset));
                end if;
                continue;
            end if;
            if verdicts[message.place] = 'd' then
                perform {schema}.bury(mine.queue_id, member.partition_id, outcomes[member.place], message.message_offset, message.error, charged);
            end if;
            place := message.message_offset + 1;
            -- What lay in a lease that expired was delivered once, see functions/expire_lease.sql.
            charged := (place < mine.suspect_until)::integer;
        end loop;
        if done then
            outcomes[member.place] := 'l' || array_to_string(verdicts, '') || outcomes[member.place];
            continue;
        end if;
        if 'u' = any (verdicts) then
            -- Said again because the answer was lost: what is done is done. The segments before are read only for such.
            select array_agg(case when m.verdict = 'u' and m.status in ('c', 'd') and m.message_offset < mine.position then 'o' else m.verdict end order by m.place)
            into verdicts
            from unnest(verdicts, statuses[member.first:member.last],
                        {schema}.locate(member.partition_id, mine.position - 10000, mine.position, hashes[member.first:member.last]))
                 with ordinality as m (verdict, status, message_offset, place);
        end if;
        if mine.lease_id = member.lease_id and 'u' = any (verdicts) then
            select p.first_offset into low from {schema}.partition p where p.id = member.partition_id;
            if low > mine.position then
                -- They were removed while somebody had them: they are done.
                verdicts := array_replace(verdicts, 'u', 'o');
                place := case when stopped is null then greatest(place, least(low, mine.lease_end)) else place end;
            end if;
        end if;
        if mine.lease_id is null and stopped is null and place = mine.position then
            -- Nothing changes. A cursor that has read everything must not be touched without the partition's lock.
            outcomes[member.place] := 'k' || array_to_string(verdicts, '') || outcomes[member.place];
            continue;
        end if;
        if stopped is null and place > mine.position and place < mine.lease_end and {schema}.first_live(member.partition_id, place) >= mine.lease_end then
            -- What is left of the lease was deleted.
            place := mine.lease_end;
        end if;
        if stopped is not null or mine.lease_id is null or place >= mine.lease_end then
            due := case when mine.lease_id is null and stopped is null and mine.due_at > now() then mine.due_at
                        when stopped = 'f' then now() + coalesce(mine.retry_delay_ms, 0) * interval '1 ms'
                        when stopped = 'r' then now()
                        else {schema}.due_after(member.partition_id, place, mine.delayed_processing_seconds, mine.window_buffer_seconds) end;
            update {schema}.cursor c
            set version = c.version + 1, position = place, retries = charged, due_at = due, lease_id = null, lease_end = null,
                last_lease = coalesce(mine.lease_id, mine.last_lease)
            where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
            outcomes[member.place] := case when due < 'infinity' then 'R' else 'r' end || array_to_string(verdicts, '') || outcomes[member.place];
        else
            if place > mine.position then
                update {schema}.cursor c set version = c.version + 1, position = place, retries = charged
                where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
            end if;
            outcomes[member.place] := 'k' || array_to_string(verdicts, '') || outcomes[member.place];
        end if;
    end loop;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
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

CREATE OR REPLACE FUNCTION {schema}.backlog(partitions bigint[])
 RETURNS integer[]
 LANGUAGE sql
 STABLE
AS $function$
    select array_agg(q.id) from {schema}.queue q
    where q.id = any (array(select distinct p.queue_id from {schema}.partition p where p.id = any (partitions))) and q.max_size > 0 and q.max_size <= (
        select coalesce(sum(greatest(l.next_offset - greatest(c.position, p.first_offset), 0)), 0)::bigint
        from {schema}.partition p
        cross join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l
        left join lateral (
            select min(n.position) as position from {schema}.consumer k
            cross join lateral (select c.position from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = k.id
                                order by c.version desc limit 1) n
            where k.queue_id = p.queue_id) c on true
        where p.queue_id = q.id)
$function$;

CREATE OR REPLACE FUNCTION {schema}.bury(queue_id integer, partition_id bigint, consumer text, message_offset bigint, error text, retries integer)
 RETURNS void
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
begin
    insert into {schema}.dead_letter (queue_id, partition_id, consumer, message_offset, message_id, transaction_id,
                                      trace_id, producer, encrypted, payload, error, retries, created_at)
    select bury.queue_id, s.partition_id, bury.consumer, bury.message_offset, s.ids[i.i], s.transaction_ids[i.i],
           s.trace_ids[i.i], s.producers[i.i], s.encrypted, s.payloads[i.i], bury.error, bury.retries, s.created_at
    from (select * from {schema}.segment s
          where s.partition_id = bury.partition_id and s.first_offset <= bury.message_offset
          order by s.first_offset desc limit 1) s
    cross join lateral (select (bury.message_offset - s.first_offset + 1)::integer as i) i
    where s.ids[i.i] is not null;
exception when foreign_key_violation then
    -- The queue is being deleted, and its dead letters with it.
    null;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.claim(source_queue text, source_partition text, group_name text, mode text, since timestamp with time zone, waited_ms bigint, leases uuid[], leases_ms bigint[], batches integer[], most integer, room integer, widths integer[], floor_us bigint)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, seat integer, lease_ms bigint, partition_id bigint, partition_name text, first_offset bigint, created_at timestamp with time zone, encrypted boolean, retries integer, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[])
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
    bound   timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    soonest timestamptz;
    reached timestamptz;
    own     integer;
    source  record;
    mine    record;
    part    record;
    place   bigint;
    last    bigint;
    upto    bigint;
    charged integer;
    -- Messages that became dead letters.
    buried  integer := 0;
    suspects bigint;
    found_version bigint;
    -- Whether the next message is delivered alone.
    single  boolean;
    bytes   bigint;
    -- Bytes of the answer per message beside its payload, its partition's name and the ids that clients give: other names, numbers and keys.
    overhead bigint := 400 + octet_length(source_queue) + octet_length(group_name);
    low     bigint;
    high    bigint;
    -- Seats that have something.
    chair   integer := 0;
    served  boolean := false;
    ignored text;
begin
    perform {schema}.age_plans();
    select q.id, q.lease_seconds * 1000::bigint as lease_ms, q.delayed_processing_seconds = 0 and q.window_buffer_seconds = 0 as plain, k.id as consumer_id,
           q.charge_expired_leases as charges,
           (select m.enabled from {schema}.maintenance m where m.name = 'pop') as closed into source
    from {schema}.queue q
    left join {schema}.consumer k on k.queue_id = q.id and md5(k.name) = md5(group_name) and k.name = group_name
    where md5(q.name) = md5(source_queue) and q.name = source_queue;
    if not found then
        return;
    end if;
    if source.consumer_id is not null then
        ignored := set_config('synchronous_commit', 'off', true);
    end if;
    if not source.closed then
        own := coalesce(source.consumer_id, {schema}.subscribe(source.id, group_name, mode, since, waited_ms));
        if 1 = all (widths) and source_partition is null and source.plain then
            for mine in
                select c.*, p.name, p.first_offset
                from (select c.partition_id, c.version, c.position, c.retries, c.due_at, c.lease_id, c.suspect_until from {schema}.cursor c
                      where c.consumer_id = own and c.due_at <= now() and c.due_at >= bound and c.due_at < 'infinity' order by c.due_at
                      limit cardinality(widths) for update skip locked) c
                join {schema}.partition p on p.id = c.partition_id
            loop
                found_version := mine.version;
                place := mine.position;
                charged := mine.retries;
                suspects := mine.suspect_until;
                if mine.lease_id is not null and source.charges then
                    select e.version, e.position, e.retries, e.suspect_until,
                           buried + (e.lease_id is null and e.last_lease is null)::integer
                    into found_version, place, charged, suspects, buried
                    from {schema}.expire_lease(own, mine.partition_id) e;
                end if;
                if place < mine.first_offset then
                    -- What lies before the partition's first message was removed.
                    place := mine.first_offset;
                    charged := (place < suspects)::integer;
                end if;
                last := place + batches[chair + 1];
                single := source.charges and place < suspects;
                if single then
                    last := {schema}.first_live(mine.partition_id, place) + 1;
                end if;
                upto := place;
                bytes := 0;
                for part in
                    select s.first_offset, s.next_offset, s.created_at, s.encrypted, s.ids, s.transaction_ids, s.trace_ids, s.producers, s.payloads,
                           pg_column_size(s.payloads) + pg_column_size(s.transaction_ids) + coalesce(pg_column_size(s.trace_ids), 0)
                           + coalesce(pg_column_size(s.producers), 0) + (s.next_offset - s.first_offset) * (overhead + octet_length(mine.name)) as size
                    from {schema}.segment s
                    where s.partition_id = mine.partition_id and s.first_offset < last and s.first_offset >= coalesce(
                        (select f.first_offset from {schema}.segment f
                         where f.partition_id = mine.partition_id and f.first_offset <= place order by f.first_offset desc limit 1), place)
                    order by s.first_offset limit most
                loop
                    exit when part.next_offset <= place or upto > place and bytes + part.size > room;
                    seat := chair;
                    due_us := (extract(epoch from greatest(mine.due_at, 'epoch')) * 1000000)::bigint;
                    lease_ms := coalesce(leases_ms[chair + 1], source.lease_ms);
                    partition_id := mine.partition_id;
                    partition_name := mine.name;
                    first_offset := greatest(part.first_offset, place);
                    created_at := part.created_at;
                    encrypted := part.encrypted;
                    retries := charged;
                    if part.first_offset >= place and part.next_offset <= last then
                        ids := part.ids;
                        transaction_ids := part.transaction_ids;
                        trace_ids := part.trace_ids;
                        producers := part.producers;
                        payloads := part.payloads;
                    else
                        -- In its arrays.
                        low := greatest(place - part.first_offset, 0) + 1;
                        high := last - part.first_offset;
                        ids := part.ids[low:high];
                        transaction_ids := part.transaction_ids[low:high];
                        trace_ids := part.trace_ids[low:high];
                        producers := part.producers[low:high];
                        payloads := part.payloads[low:high];
                    end if;
                    return next;
                    upto := least(part.next_offset, last);
                    bytes := bytes + part.size;
                end loop;
                if upto = place then
                    perform {schema}.put_off(own, array[mine.partition_id], 0, 0);
                    continue;
                end if;
                chair := chair + 1;
                reached := mine.due_at;
                update {schema}.cursor c
                set version = c.version + 1, read_at = now(), position = place, retries = charged, lease_is_single = single or upto = place + 1,
                    due_at = now() + coalesce(leases_ms[chair], source.lease_ms) * interval '1 ms',
                    lease_id = leases[chair], lease_end = upto, last_lease = coalesce(c.lease_id, c.last_lease)
                where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = found_version;
            end loop;
            served := chair > 0;
            -- If everybody has something, little of interest lies before the last of it: what somebody else has locked is found by the next look without a floor.
            bound := greatest(bound, case when floor_us is not null and chair = cardinality(widths) then reached end);
        end if;
        for attempt in 1..2 loop
            if source_partition is null then
                soonest := (select c.due_at from {schema}.cursor c
                            where c.consumer_id = own and c.due_at >= bound and c.due_at < 'infinity' and c.due_at <= case when floor_us is null then 'infinity' else now() end
                            order by c.due_at limit 1);
            else
                soonest := (select n.due_at from {schema}.partition p
                            cross join lateral (select c.due_at from {schema}.cursor c
                                                where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
                            where p.queue_id = source.id and md5(p.name) = md5(source_partition) and p.name = source_partition);
            end if;
            exit when served or soonest is null or soonest > now();
            served := true;
            return query select * from {schema}.lease_partitions(
                own, source.id, source_partition, leases, leases_ms, batches, room, overhead,
                -- Whose turn it is to get a partition: everybody once, then who wants a second.
                array(select w.seat::integer from unnest(widths) with ordinality as w (width, seat), generate_series(1, w.width) as round order by round, w.seat), bound);
        end loop;
    end if;
    seat := null;
    retries := buried;
    -- What the last segment has left in them would be sent a second time.
    ids := null;
    transaction_ids := null;
    trace_ids := null;
    producers := null;
    payloads := null;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    next_due_ms := case when soonest < 'infinity' then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.configure(queue text, namespace text, task text, own_namespace text, own_task text, lease_seconds integer, retry_limit integer, retry_delay_ms integer, max_size bigint, ttl_seconds integer, dead_letter_queue boolean, dlq_after_max_retries boolean, priority integer, delayed_processing_seconds integer, window_buffer_seconds integer, retention_seconds integer, completed_retention_seconds integer, retention_enabled boolean, encryption_enabled boolean, max_wait_time_seconds integer, charge_expired_leases boolean, consumed_retention_seconds integer)
 RETURNS SETOF {schema}.queue
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    old     {schema}.queue;
    new     {schema}.queue;
    waiting record;
begin
    insert into {schema}.queue (name, namespace, task)
    values (queue, coalesce(configure.namespace, own_namespace), coalesce(configure.task, own_task))
    on conflict (md5(name)) do nothing;
    select q.* into old from {schema}.queue q where md5(q.name) = md5(queue) and q.name = queue for no key update;
    if not found then
        return;
    end if;
    update {schema}.queue q set
        namespace = coalesce(configure.namespace, q.namespace),
        task = coalesce(configure.task, q.task),
        lease_seconds = coalesce(configure.lease_seconds, q.lease_seconds),
        retry_limit = coalesce(configure.retry_limit, q.retry_limit),
        retry_delay_ms = coalesce(configure.retry_delay_ms, q.retry_delay_ms),
        max_size = coalesce(configure.max_size, q.max_size),
        ttl_seconds = coalesce(configure.ttl_seconds, q.ttl_seconds),
        dead_letter_queue = coalesce(configure.dead_letter_queue, q.dead_letter_queue),
        dlq_after_max_retries = coalesce(configure.dlq_after_max_retries, q.dlq_after_max_retries),
        priority = coalesce(configure.priority, q.priority),
        delayed_processing_seconds = coalesce(configure.delayed_processing_seconds, q.delayed_processing_seconds),
        window_buffer_seconds = coalesce(configure.window_buffer_seconds, q.window_buffer_seconds),
        retention_seconds = coalesce(configure.retention_seconds, q.retention_seconds),
        completed_retention_seconds = coalesce(configure.completed_retention_seconds, q.completed_retention_seconds),
        retention_enabled = coalesce(configure.retention_enabled, q.retention_enabled),
        encryption_enabled = coalesce(configure.encryption_enabled, q.encryption_enabled),
        max_wait_time_seconds = coalesce(configure.max_wait_time_seconds, q.max_wait_time_seconds),
        charge_expired_leases = coalesce(configure.charge_expired_leases, q.charge_expired_leases),
        consumed_retention_seconds = coalesce(configure.consumed_retention_seconds, q.consumed_retention_seconds),
        revision = q.revision + case when configure.namespace <> q.namespace or configure.task <> q.task or configure.encryption_enabled <> q.encryption_enabled
                                     then 1 else 0 end
    where q.id = old.id returning q.* into new;
    if (old.delayed_processing_seconds, old.window_buffer_seconds) <> (new.delayed_processing_seconds, new.window_buffer_seconds) then
        perform from {schema}.partition p where p.queue_id = new.id order by p.id for no key update;
        for waiting in
            select c.partition_id, c.consumer_id, c.version from {schema}.consumer k join {schema}.cursor c on c.consumer_id = k.id
            where k.queue_id = new.id and c.due_at > now() and c.due_at < 'infinity' and c.lease_id is null
              and not (c.retries > 0 and c.due_at <= now() + coalesce(old.retry_delay_ms, 0) * interval '1 ms')
            order by c.partition_id, c.consumer_id for update of c
        loop
            update {schema}.cursor c set version = c.version + 1, due_at = now()
            where c.partition_id = waiting.partition_id and c.consumer_id = waiting.consumer_id and c.version = waiting.version;
        end loop;
    end if;
    return next new;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.counts(queue_id integer)
 RETURNS TABLE(partitions bigint, total bigint, unfinished bigint, processing bigint)
 LANGUAGE sql
 STABLE
AS $function$
    select count(*), coalesce(sum(h.head - p.first_offset), 0)::bigint, coalesce(sum(h.head - c.position), 0)::bigint,
           coalesce(sum(least(c.leased, h.head - c.position)), 0)::bigint
    from {schema}.partition p
    left join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    cross join lateral (select coalesce(l.next_offset, p.first_offset) as head) h
    cross join lateral (
        select coalesce(least(greatest(min(c.position), p.first_offset), h.head), p.first_offset) as position,
               coalesce(max(c.lease_end - greatest(c.position, p.first_offset)) filter (where c.lease_id is not null and c.due_at > now()), 0) as leased
        from {schema}.cursor c where c.partition_id = p.id) c
    where p.queue_id = counts.queue_id
$function$;

CREATE OR REPLACE FUNCTION {schema}.due_after(partition_id bigint, place bigint, delayed_seconds integer, window_seconds integer)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_variable
declare
    newest  record;
    oldest  timestamptz;
begin
    for attempt in 1..2 loop
        select s.next_offset, s.created_at into newest from {schema}.segment s
        where s.partition_id = due_after.partition_id order by s.first_offset desc limit 1;
        if newest.next_offset > place then
            if delayed_seconds = 0 and window_seconds = 0 then
                return now();
            end if;
            -- The first must be old enough, and the last.
            if delayed_seconds > 0 then
                select s.created_at into oldest from {schema}.segment s
                where s.partition_id = due_after.partition_id and s.next_offset > place and s.first_offset >= coalesce(
                    (select max(f.first_offset) from {schema}.segment f where f.partition_id = due_after.partition_id and f.first_offset <= place), place)
                order by s.first_offset limit 1;
            end if;
            return greatest(oldest + delayed_seconds * interval '1 s', case when window_seconds > 0 then newest.created_at + window_seconds * interval '1 s' end, now());
        end if;
        -- Lock first, decide next.
        if attempt = 1 then
            perform from {schema}.partition p where p.id = due_after.partition_id for no key update skip locked;
            if not found then
                return now();
            end if;
        end if;
    end loop;
    return 'infinity';
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.evict(partitions bigint[], consumers integer[])
 RETURNS TABLE(queue text, consumer text, messages bigint, due boolean)
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
    source record;
    mine   record;
    head   bigint;
    floor  bigint;
    target bigint;
    ahead  timestamptz;
begin
    for source in
        select p.id, p.first_offset, k.id as consumer_id, k.name, q.name as queue, q.max_wait_time_seconds, q.delayed_processing_seconds, q.window_buffer_seconds
        from unnest(partitions, consumers) as n (partition_id, consumer_id)
        join {schema}.partition p on p.id = n.partition_id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.id = n.consumer_id
        where q.max_wait_time_seconds > 0
        order by p.id, k.id
    loop
        select c.* into mine from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id order by c.version desc limit 1 for update skip locked;
        continue when not found or mine.lease_id is not null and mine.due_at > now();
        select s.next_offset into head from {schema}.segment s where s.partition_id = source.id order by s.first_offset desc limit 1;
        continue when not found;
        target := {schema}.offset_at(source.id, now() - source.max_wait_time_seconds * interval '1 s', head);
        floor := greatest(mine.position, source.first_offset);
        continue when target <= floor;
        ahead := {schema}.due_after(source.id, target, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c set version = c.version + 1, position = target, due_at = ahead, lease_id = null, lease_end = null,
            retries = (target < c.suspect_until)::integer
        where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
        queue := source.queue;
        consumer := source.name;
        messages := target - floor;
        due := ahead < 'infinity';
        return next;
    end loop;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.expire_lease(own integer, partition_id bigint)
 RETURNS {schema}.cursor
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    mine     {schema}.cursor;
    source   record;
    place    bigint;
    charged  integer;
    suspects bigint;
    buried   boolean := false;
begin
    select c.* into mine from {schema}.cursor c
    where c.partition_id = expire_lease.partition_id and c.consumer_id = own order by c.version desc limit 1;
    select q.id, q.retry_limit, k.name, p.first_offset into source
    from {schema}.consumer k
    join {schema}.queue q on q.id = k.queue_id
    join {schema}.partition p on p.id = expire_lease.partition_id
    where k.id = own;
    if not found or mine.lease_id is null then
        return mine;
    end if;
    suspects := greatest(mine.suspect_until, mine.lease_end);
    place := {schema}.first_live(expire_lease.partition_id, greatest(mine.position, source.first_offset));
    -- What was charged to a message that is gone is not charged to the next one.
    charged := case when place > mine.position then (place < mine.suspect_until)::integer else mine.retries end;
    if place < mine.lease_end then
        if mine.lease_is_single and charged >= source.retry_limit then
            perform {schema}.bury(
                source.id, expire_lease.partition_id, source.name, place,
                format('the lease expired without an ack; delivered %s times, retryLimit is %s', charged + 1, source.retry_limit),
                charged);
            buried := true;
            place := place + 1;
            charged := (place < suspects)::integer;
        else
            charged := charged + 1;
        end if;
    end if;
    update {schema}.cursor c
    set version = c.version + 1, position = place, retries = charged, suspect_until = suspects,
        -- An ack of a dead letter that comes late is refused, not taken for one that was heard before.
        lease_id = null, lease_end = null, last_lease = case when not buried then mine.lease_id end
    where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version
    returning c.* into mine;
    return mine;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.extend(lease uuid, lease_ms bigint)
 RETURNS TABLE(partition_id bigint, until timestamp with time zone)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
begin
    return query
    update {schema}.cursor c
    set version = c.version + 1,
        due_at = greatest(c.due_at, now() + coalesce(extend.lease_ms, (select greatest(q.lease_seconds, 60) * 1000::bigint from {schema}.consumer k
                                                                        join {schema}.queue q on q.id = k.queue_id where k.id = c.consumer_id)) * interval '1 ms')
    where c.lease_id = extend.lease
    returning c.partition_id, c.due_at;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.figures(top bigint, counted bigint)
 RETURNS TABLE(kind text, queue text, consumer text, sources bigint, partitions bigint, waiting bigint, dead_letters bigint, oldest double precision)
 LANGUAGE sql
 STABLE
 SET search_path TO 'reveille_own'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
 SET jit TO 'off'
AS $function$
    with place as materialized (
        select p.id, p.queue_id, p.first_offset, coalesce(l.next_offset, p.first_offset) as head
        from {schema}.partition p
        left join lateral (
            select s.next_offset from {schema}.segment s
            where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    ), reader as materialized (
        select p.id, p.queue_id, c.consumer_id, p.head - a.position as waiting, o.created_at
        from place p
        join {schema}.cursor c on c.partition_id = p.id
        cross join lateral (select least(greatest(c.position, p.first_offset), p.head) as position) a
        left join lateral (
            select s.created_at from {schema}.segment s
            where s.partition_id = p.id and s.first_offset <= a.position
            order by s.first_offset desc limit 1) o on a.position < p.head
    ), unread as (
        select p.id, p.queue_id, p.head - p.first_offset as waiting, f.created_at
        from place p
        left join lateral (
            select s.created_at from {schema}.segment s
            where s.partition_id = p.id order by s.first_offset limit 1) f on true
        where not exists (select from reader r where r.id = p.id)
    ), depth as (
        select e.queue_id, count(*) as partitions, sum(e.waiting) as waiting, min(e.created_at) as created_at
        from (
            select r.queue_id, max(r.waiting) as waiting, min(r.created_at) as created_at
            from reader r group by r.id, r.queue_id
            union all
            select u.queue_id, u.waiting, u.created_at from unread u
        ) e
        group by e.queue_id
    ), ranked_queue as (
        select q.name, coalesce(d.partitions, 0) as partitions, coalesce(d.waiting, 0) as waiting, d.created_at, l.dead,
               row_number() over (order by coalesce(d.waiting, 0) desc, l.dead desc, q.id) as place
        from {schema}.queue q
        left join depth d on d.queue_id = q.id
        cross join lateral (
            select count(*) as dead
            from (select from {schema}.dead_letter d where d.queue_id = q.id limit counted) d) l
    ), ranked_group as (
        select q.name as queue, k.name, g.waiting, g.created_at, g.partitions,
               row_number() over (order by g.waiting desc, k.id) as place
        from (
            select r.queue_id, r.consumer_id, sum(r.waiting) as waiting, min(r.created_at) as created_at,
                   count(*) as partitions
            from reader r group by r.queue_id, r.consumer_id
        ) g
        join {schema}.queue q on q.id = g.queue_id
        join {schema}.consumer k on k.id = g.consumer_id
    )
    select 'q', r.queue, null, r.sources, r.partitions, r.waiting, r.dead,
           extract(epoch from now() - r.created_at)::float8
    from (
        select case when r.place <= top then r.name end as queue, count(*) as sources,
               sum(r.partitions)::bigint as partitions, sum(r.waiting)::bigint as waiting, sum(r.dead)::bigint as dead,
               min(r.created_at) as created_at
        from ranked_queue r group by least(r.place, top + 1), 1
    ) r
    union all
    select 'g', r.queue, r.consumer, r.sources, r.partitions, r.waiting, 0,
           extract(epoch from now() - r.created_at)::float8
    from (
        select case when r.place <= top then r.queue end as queue, case when r.place <= top then r.name end as consumer,
               count(*) as sources, sum(r.partitions)::bigint as partitions, sum(r.waiting)::bigint as waiting,
               min(r.created_at) as created_at
        from ranked_group r group by least(r.place, top + 1), 1, 2
    ) r
$function$;

CREATE OR REPLACE FUNCTION {schema}.finish(flight uuid, channels text[], payloads text[], patient boolean, partitions bigint[], leases uuid[])
 RETURNS text[]
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
    outcomes text[] := array_fill(null::text, array[cardinality(partitions)]);
    ended    record;
begin
    for ended in
        with mine as materialized (
            select n.place, c.partition_id, c.consumer_id, c.version
            from unnest(partitions, leases) with ordinality as n (partition_id, lease_id, place)
            cross join lateral (select c.partition_id, c.consumer_id, c.version from {schema}.cursor c
                                where c.lease_id = n.lease_id and c.partition_id + 0 = n.partition_id for update skip locked) c
            -- Of a group that was deleted nothing is left to be done.
            where exists (select from {schema}.consumer k where k.id = c.consumer_id)
        )
        update {schema}.cursor c
        -- Delays and windows are for whoever looks: it puts off what it must not have yet.
        set version = c.version + 1, position = c.lease_end, due_at = {schema}.due_after(c.partition_id, c.lease_end, 0, 0),
            -- What lay in a lease that expired was delivered once, see functions/expire_lease.sql.
            retries = (c.lease_end < c.suspect_until)::integer,
            lease_id = null, lease_end = null, last_lease = c.lease_id
        from mine m
        where c.partition_id = m.partition_id and c.consumer_id = m.consumer_id and c.version = m.version
        returning m.place, c.due_at
    loop
        outcomes[ended.place] := case when ended.due_at < 'infinity' then 'R' else 'r' end;
    end loop;
    perform {schema}.land(flight, outcomes, channels, payloads);
    return outcomes;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.first_live(partition_id bigint, place bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
begin
    return coalesce(
        (select l.message_offset from {schema}.segment s
         cross join lateral (select min(s.first_offset + i.place - 1) as message_offset from unnest(s.ids) with ordinality as i (id, place)
                             where i.id is not null and s.first_offset + i.place - 1 >= first_live.place) l
         where s.partition_id = first_live.partition_id and l.message_offset is not null and s.first_offset >= coalesce(
             (select max(f.first_offset) from {schema}.segment f where f.partition_id = first_live.partition_id and f.first_offset <= first_live.place), first_live.place)
         order by s.first_offset limit 1),
        (select s.next_offset from {schema}.segment s where s.partition_id = first_live.partition_id order by s.first_offset desc limit 1),
        first_live.place);
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

CREATE OR REPLACE FUNCTION {schema}.lease_partitions(own integer, source_id integer, source_partition text, leases uuid[], leases_ms bigint[], batches integer[], room integer, overhead bigint, turns integer[], bound timestamp with time zone)
 RETURNS TABLE(next_due_ms double precision, due_us bigint, seat integer, lease_ms bigint, partition_id bigint, partition_name text, first_offset bigint, created_at timestamp with time zone, encrypted boolean, retries integer, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[])
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
    source record;
    found  record;
    returned bigint;
    buried integer := 0;
begin
    select q.* into source from {schema}.queue q where q.id = source_id;
    -- What is taken, by whom and up to where; and what turned out to have nothing to read yet.
    for attempt in 1..4 loop
        with due as materialized (
            select * from (
                select c.partition_id, c.version, c.due_at from {schema}.cursor c
                where source_partition is null and c.consumer_id = own and c.due_at <= now() and c.due_at >= bound and c.due_at < 'infinity'
                order by c.due_at limit cardinality(turns) * 2 + 16) c
            union all
            select n.partition_id, n.version, n.due_at from {schema}.partition p
            cross join lateral (select c.partition_id, c.version, c.due_at from {schema}.cursor c
                                where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
            where p.queue_id = source.id and md5(p.name) = md5(source_partition) and p.name = source_partition and n.due_at <= now()
        ), mine as materialized (
            select c.partition_id, c.version, d.due_at,
                   -- What lies before was removed meanwhile.
                   greatest(c.position, p.first_offset) as position,
                   case when c.position < p.first_offset then (p.first_offset < c.suspect_until)::integer else c.retries end as retries,
                   source.charge_expired_leases and greatest(c.position, p.first_offset) < c.suspect_until as suspect,
                   source.charge_expired_leases and c.lease_id is not null as expired, octet_length(p.name) as name_bytes
            from due d
            cross join lateral (select c.partition_id, c.version, c.position, c.retries, c.suspect_until, c.lease_id from {schema}.cursor c
                                where c.partition_id = d.partition_id and c.consumer_id = own and c.version = d.version for update skip locked) c
            join {schema}.partition p on p.id = c.partition_id
            limit cardinality(turns)
        ), readable as materialized (
            -- Up to where: not more than the largest batch, nor `room`, nor what is not old enough.
            select m.*, r.upto, r.bytes, row_number() over (partition by r.upto is not null order by m.due_at, m.partition_id) as turn
            from (select * from mine m where not m.expired) m
            left join lateral (
                select max(s.next_offset) as upto, max(s.upto_bytes) as bytes from (
                    select s.next_offset, sum(s.size) over (order by s.first_offset) as upto_bytes, row_number() over (order by s.first_offset) as nth
                    from (
                        select s.first_offset, s.next_offset,
                               pg_column_size(s.payloads) + pg_column_size(s.transaction_ids) + coalesce(pg_column_size(s.trace_ids), 0)
                               + coalesce(pg_column_size(s.producers), 0) + (s.next_offset - s.first_offset) * (overhead + m.name_bytes) as size
                        from {schema}.segment s
                        where s.partition_id = m.partition_id and s.next_offset > m.position and s.first_offset >= coalesce(
                            (select max(f.first_offset) from {schema}.segment f where f.partition_id = m.partition_id and f.first_offset <= m.position), m.position)
                          and s.first_offset < m.position + (select max(b) from unnest(batches) as b)
                          and s.created_at <= now() - source.delayed_processing_seconds * interval '1 s'
                        order by s.first_offset limit (select max(b) from unnest(batches) as b)) s) s
                where s.upto_bytes <= room or s.nth = 1
            ) r on source.window_buffer_seconds = 0 or now() >= (
                select s.created_at + source.window_buffer_seconds * interval '1 s' from {schema}.segment s
                where s.partition_id = m.partition_id order by s.first_offset desc limit 1)
        ), dealt as (
            select r.*, turns[r.turn] as seat, coalesce(sum(least(r.upto - r.position, batches[turns[r.turn]]))
                       over (partition by turns[r.turn] order by r.turn rows between unbounded preceding and 1 preceding), 0) as before,
                   sum(r.bytes) over (partition by turns[r.turn] order by r.turn) as upto_bytes,
                   first_value(r.suspect) over (partition by turns[r.turn] order by r.turn) as is_for_suspect,
                   row_number() over (partition by turns[r.turn] order by r.turn) as nth
            from readable r where r.upto is not null
        ), taken as (
            select d.*, case when d.suspect then least(d.upto, {schema}.first_live(d.partition_id, d.position) + 1)
                             else least(d.upto, d.position + batches[d.seat] - d.before) end::bigint as last
            from dealt d
            -- A message that is delivered alone is alone in its lease: the partitions that the seat leaves are for the next claim.
            where d.before < batches[d.seat] and case when d.is_for_suspect then d.nth = 1 else not d.suspect end
              and (d.upto_bytes <= room or d.nth = 1)
        )
        select (select array_agg(m.partition_id) from mine m where m.expired) as expired,
               (select array_agg(r.partition_id) from readable r where r.upto is null) as idle,
               array_agg(t.partition_id order by t.turn) as partitions, array_agg(t.version order by t.turn) as versions, array_agg(t.position order by t.turn) as positions,
               array_agg(t.last order by t.turn) as lasts, array_agg(t.seat order by t.turn) as seats, array_agg(t.retries order by t.turn) as retries, array_agg(t.due_at order by t.turn) as dues,
               array_agg(t.suspect or t.last = t.position + 1 and c.partitions = 1 order by t.turn) as singles
        into found from taken t
        cross join lateral (select count(*) as partitions from taken o where o.seat = t.seat) c;
        -- An expired lease is ended first, and its partition is read as it is then. What others release meanwhile may be expired too: after the last attempt that is for the next claim.
        exit when found.expired is null or attempt = 4;
        buried := buried + (
            select count(*) from unnest(found.expired) as e (id) cross join lateral {schema}.expire_lease(own, e.id) x
            where x.lease_id is null and x.last_lease is null)::integer;
    end loop;
    if buried > 0 then
        retries := buried;
        return next;
    end if;
    if found.partitions is not null then
        return query
        with leased as (
            update {schema}.cursor c
            set version = c.version + 1, read_at = now(), last_lease = coalesce(c.lease_id, c.last_lease),
                position = t.position, retries = t.retries, lease_id = leases[t.seat], lease_end = t.last, lease_is_single = t.single,
                due_at = now() + coalesce(leases_ms[t.seat], source.lease_seconds * 1000::bigint) * interval '1 ms'
            from unnest(found.partitions, found.versions, found.positions, found.lasts, found.seats, found.retries, found.singles)
                as t (partition_id, version, position, last, seat, retries, single)
            where c.partition_id = t.partition_id and c.consumer_id = own and c.version = t.version
        )
        select null::float8, (extract(epoch from greatest(t.due_at, 'epoch')) * 1000000)::bigint, t.seat - 1, coalesce(leases_ms[t.seat], source.lease_seconds * 1000::bigint), t.partition_id, p.name,
               t.position + s.first - 1, s.created_at, s.encrypted, t.retries,
               s.ids[s.skip + 1 : s.skip + s.amount], s.transaction_ids[s.skip + 1 : s.skip + s.amount],
               s.trace_ids[s.skip + 1 : s.skip + s.amount], s.producers[s.skip + 1 : s.skip + s.amount], s.payloads[s.skip + 1 : s.skip + s.amount]
        from unnest(found.partitions, found.versions, found.positions, found.lasts, found.seats, found.retries, found.dues) with ordinality
            as t (partition_id, version, position, last, seat, retries, due_at, turn)
        join {schema}.partition p on p.id = t.partition_id
        cross join lateral (
            select s.*, greatest(t.position - s.first_offset, 0)::integer as skip, greatest(s.first_offset - t.position, 0) + 1 as first,
                   (least(s.next_offset, t.last) - greatest(s.first_offset, t.position))::integer as amount
            from {schema}.segment s
            where s.partition_id = t.partition_id and s.first_offset < t.last and s.next_offset > t.position and s.first_offset >= coalesce(
                (select max(f.first_offset) from {schema}.segment f where f.partition_id = t.partition_id and f.first_offset <= t.position), t.position)
            order by s.first_offset) s
        order by t.turn, s.first_offset;
        get diagnostics returned = row_count;
        if returned < cardinality(found.partitions) then
            -- What was found was removed in this moment: nobody would know of the lease.
            update {schema}.cursor c set version = c.version + 1, due_at = now(), lease_id = null, lease_end = null
            from unnest(found.partitions, found.lasts) as t (id, last), {schema}.partition p
            where c.partition_id = t.id and c.consumer_id = own and c.lease_id = any (leases) and p.id = t.id and p.first_offset >= t.last;
        end if;
    end if;
    if found.idle is not null then
        perform {schema}.put_off(own, found.idle, source.delayed_processing_seconds, source.window_buffer_seconds);
    end if;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.locate(partition_id bigint, low bigint, high bigint, hashes bigint[])
 RETURNS bigint[]
 LANGUAGE plpgsql
 STABLE
 SET enable_nestloop TO 'off'
AS $function$
begin
    return (select array_agg(s.message_offset order by h.place)
    from unnest(locate.hashes) with ordinality as h (hash, place)
    left join (
        select x.hash, coalesce(min(s.first_offset + x.place - 1) filter (where x.id is not null), min(s.first_offset + x.place - 1)) as message_offset
        from {schema}.segment s
        cross join lateral unnest(s.hashes, s.ids) with ordinality as x (hash, id, place)
        where s.partition_id = locate.partition_id and s.first_offset < high and s.first_offset >= coalesce(
            (select max(f.first_offset) from {schema}.segment f where f.partition_id = locate.partition_id and f.first_offset <= low), low)
        group by x.hash
    ) s on s.hash = h.hash);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.offset_at(partition_id bigint, since timestamp with time zone, head bigint)
 RETURNS bigint
 LANGUAGE plpgsql
 STABLE
AS $function$
#variable_conflict use_column
declare
    low    bigint;
    high   bigint := head;
    middle record;
begin
    select s.first_offset into low from {schema}.segment s where s.partition_id = offset_at.partition_id order by s.first_offset limit 1;
    while low < high loop
        -- The last segment that begins at or before the middle.
        select s.first_offset, s.next_offset, s.created_at into middle from {schema}.segment s
        where s.partition_id = offset_at.partition_id and s.first_offset <= (low + high) / 2 order by s.first_offset desc limit 1;
        if middle.created_at >= since then
            high := middle.first_offset;
        else
            low := middle.next_offset;
        end if;
    end loop;
    return coalesce(low, head);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.open_partitions(queues text[], partitions text[], namespaces text[], tasks text[])
 RETURNS TABLE(place integer, partition_id bigint, namespace text, task text, encrypted boolean, revision integer, made boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    new bigint[] := '{}';
begin
    if exists (select from unnest(queues, partitions) as n (queue, partition) where not exists (
        select from {schema}.queue q join {schema}.partition p on p.queue_id = q.id
        where md5(q.name) = md5(n.queue) and q.name = n.queue and md5(p.name) = md5(n.partition) and p.name = n.partition))
    then
        insert into {schema}.queue (name, namespace, task)
        select n.queue, n.namespace, n.task from unnest(queues, namespaces, tasks) as n (queue, namespace, task)
        where not exists (select from {schema}.queue q where md5(q.name) = md5(n.queue))
        group by n.queue, n.namespace, n.task order by n.queue
        on conflict (md5(name)) do nothing;
        perform from {schema}.queue q where md5(q.name) = any (array(select md5(n) from unnest(queues) as n)) order by q.id for key share;
        with made as (
            insert into {schema}.partition (queue_id, name)
            select distinct q.id, n.partition from unnest(queues, partitions) as n (queue, partition)
            join {schema}.queue q on md5(q.name) = md5(n.queue) and q.name = n.queue
            where not exists (select from {schema}.partition p where p.queue_id = q.id and md5(p.name) = md5(n.partition))
            order by q.id, n.partition
            on conflict (queue_id, md5(name)) do nothing
            returning id
        )
        select coalesce(array_agg(id), '{}') into new from made;
        insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
        select p.id, c.id, 0, 'infinity' from {schema}.partition p join {schema}.consumer c on c.queue_id = p.queue_id where p.id = any (new);
    end if;
    return query
    select n.place::integer, p.id, q.namespace, q.task, q.encryption_enabled, q.revision, p.id = any (new)
    from unnest(queues, partitions) with ordinality as n (queue, partition, place)
    join {schema}.queue q on md5(q.name) = md5(n.queue) and q.name = n.queue
    join {schema}.partition p on p.queue_id = q.id and md5(p.name) = md5(n.partition) and p.name = n.partition
    order by n.place;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.push(flight uuid, channels text[], payloads text[], patient boolean, partitions bigint[], known bigint[], revisions integer[], lasts integer[], cuts integer[], ids uuid[], transaction_ids text[], hashes bigint[], bodies bytea[], trace_ids text[], producers text[], drains boolean)
 RETURNS TABLE(place integer, verdict text, first_offset bigint, unseen bigint[], unseen_from bigint, begins bigint, backend integer)
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
    held     bigint[];
    moment   timestamptz;
begin
    if patient then
        held := array(select p.id from unnest(partitions) as n (id)
                      cross join lateral (select p.id from {schema}.partition p where p.id = n.id for no key update) p);
    else
        for attempt in 1..4 loop
            held := array(select p.id from unnest(partitions) as n (id)
                          cross join lateral (select p.id from {schema}.partition p where p.id = n.id for no key update skip locked) p);
            exit when cardinality(held) = cardinality(partitions) or attempt = 4
                   or cardinality(held) = (select count(*) from unnest(partitions) as n (id) join {schema}.partition p on p.id = n.id);
            perform pg_sleep(0.002);
        end loop;
    end if;
    moment := clock_timestamp();
    return query
    with head as materialized (
        select n.place, n.id, n.known, b.last + 1 as first_cut, n.last as last_cut, coalesce(cuts[b.last], 0) + 1 as first, cuts[n.last] as last,
               p.queue_id, p.first_offset as begins,
               coalesce(s.next_offset, p.first_offset) as offset, greatest(s.created_at, moment) as created_at, q.encryption_enabled as sealed,
               case when p.id is null then case when exists (select from {schema}.partition a where a.id = n.id) then 'locked' else 'gone' end
                    when q.revision <> n.revision then 'gone'
                    when n.known > coalesce(s.next_offset, p.first_offset) then 'gone'
                    -- Asked once for all, and only if one has a limit.
                    when q.max_size > 0 and not drains and q.id = any ((select {schema}.backlog(held))::integer[]) then 'full' end as verdict
        from unnest(partitions, known, revisions, lasts) with ordinality as n (id, known, revision, last, place)
        cross join lateral (select coalesce(lasts[n.place::integer - 1], 0) as last) b
        left join lateral (select p.id, p.queue_id, p.first_offset from {schema}.partition p where p.id = n.id and p.id = any (held)) p on true
        left join lateral (select q.id, q.encryption_enabled, q.revision, q.max_size from {schema}.queue q where q.id = p.queue_id) q on true
        left join lateral (select s.next_offset, s.created_at from {schema}.segment s where s.partition_id = p.id
                           order by s.first_offset desc limit 1) s on true
    ), judged as materialized (
        select h.*, u.hashes as unseen, u.first as unseen_from,
               case when u.hashes && push.hashes[h.first:h.last] then 'stale' else coalesce(h.verdict, 'ok') end as fate
        from head h
        left join lateral (
            select array_agg(x.hash order by s.first_offset, x.place) as hashes, min(s.first_offset) as first from {schema}.segment s
            cross join lateral unnest(s.hashes) with ordinality as x (hash, place)
            where s.partition_id = h.id and s.first_offset >= h.known and s.first_offset < h.offset
        ) u on h.offset > h.known and coalesce(h.verdict, 'full') = 'full'
    ), written as (
        insert into {schema}.segment (partition_id, first_offset, next_offset, created_at, encrypted, hashes, ids, transaction_ids, trace_ids, producers, payloads)
        select j.id, j.offset + (c.first - j.first), j.offset + (c.last - j.first + 1), j.created_at, j.sealed,
               push.hashes[c.first:c.last], push.ids[c.first:c.last], push.transaction_ids[c.first:c.last],
               nullif(push.trace_ids[c.first:c.last], array_fill(null::text, array[c.last - c.first + 1])),
               nullif(push.producers[c.first:c.last], array_fill(null::text, array[c.last - c.first + 1])),
               push.bodies[c.first:c.last]
        from (select j.*, generate_series(j.first_cut, j.last_cut) as cut from judged j where j.fate = 'ok') j
        cross join lateral (select coalesce(cuts[j.cut - 1], 0) + 1 as first, cuts[j.cut] as last) c
    ), woken as (
        -- None is changed by anybody else meanwhile: whoever made it infinite had the partition.
        update {schema}.cursor c set version = c.version + 1,
               due_at = w.created_at + greatest(w.delayed_processing_seconds, w.window_buffer_seconds) * interval '1 s'
        from (
            select n.partition_id, n.consumer_id, n.version, j.created_at, q.delayed_processing_seconds, q.window_buffer_seconds
            from judged j
            cross join lateral (select q.delayed_processing_seconds, q.window_buffer_seconds from {schema}.queue q where q.id = j.queue_id offset 0) q
            cross join lateral (select k.id from {schema}.consumer k where k.queue_id = j.queue_id offset 0) k
            cross join lateral (select c.partition_id, c.consumer_id, c.version, c.due_at from {schema}.cursor c
                                where c.partition_id = j.id and c.consumer_id = k.id order by c.version desc limit 1) n
            where j.fate = 'ok' and n.due_at = 'infinity'
        ) w
        where c.partition_id = w.partition_id and c.consumer_id = w.consumer_id and c.version = w.version
    )
    select j.place::integer, j.fate, case when j.fate = 'ok' then j.offset end, j.unseen, j.unseen_from, j.begins, pg_backend_pid() from judged j order by j.place;
    perform {schema}.land(flight, array[]::text[], channels, payloads);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.put_off(own integer, partitions bigint[], delayed_seconds integer, window_seconds integer)
 RETURNS timestamp with time zone
 LANGUAGE plpgsql
AS $function$
#variable_conflict use_column
declare
    mine    record;
    due     timestamptz;
    soonest timestamptz := 'infinity';
begin
    for mine in
        select n.* from unnest(partitions) as p (id)
        cross join lateral (select c.* from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
    loop
        due := {schema}.due_after(mine.partition_id, mine.position, delayed_seconds, window_seconds);
        if due > now() or mine.lease_id is not null then
            update {schema}.cursor c set version = c.version + 1, due_at = due, lease_id = null, lease_end = null
            where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
        end if;
        soonest := least(soonest, due);
    end loop;
    return soonest;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.release(leases uuid[])
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
begin
    update {schema}.cursor c set version = c.version + 1, due_at = now(), lease_id = null, lease_end = null
    where c.lease_id = any (leases);
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.remove_queue(queue text)
 RETURNS bigint[]
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    own  integer;
    gone bigint[];
begin
    select q.id into own from {schema}.queue q where md5(q.name) = md5(queue) and q.name = queue for update;
    if not found then
        return null;
    end if;
    gone := array(select p.id from {schema}.partition p where p.queue_id = own order by p.id for update);
    insert into {schema}.removed_partition (partition_id) select unnest(gone);
    delete from {schema}.buffered b where b.queue = remove_queue.queue;
    delete from {schema}.queue q where q.id = own;
    return gone;
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

CREATE OR REPLACE FUNCTION {schema}.seek(partitions bigint[], group_name text, place text, since timestamp with time zone)
 RETURNS TABLE(partition_id bigint, consumer text, due boolean)
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
    source record;
    mine   record;
    head   bigint;
    target bigint;
    ahead  timestamptz;
begin
    for source in
        select p.id, p.first_offset, q.delayed_processing_seconds, q.window_buffer_seconds, k.id as consumer_id, k.name, k.mode,
               coalesce(k.since, k.created_at) as began
        from unnest(partitions) as n (id)
        join {schema}.partition p on p.id = n.id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.queue_id = p.queue_id
        where seek.group_name is null or md5(k.name) = md5(seek.group_name) and k.name = seek.group_name
        order by p.id, k.id
    loop
        select c.* into mine from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id order by c.version desc limit 1 for update;
        continue when not found;
        head := coalesce((select s.next_offset from {schema}.segment s where s.partition_id = source.id order by s.first_offset desc limit 1), source.first_offset);
        target := case
            when place = 'end' then head
            when place = 'time' then {schema}.offset_at(source.id, seek.since, head)
            when place = 'subscription' and source.mode in ('new', 'timestamp') then {schema}.offset_at(source.id, source.began, head)
            when place = 'floor' and mine.position >= source.first_offset then null
            else source.first_offset end;
        continue when target is null;
        ahead := {schema}.due_after(source.id, target, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c
        set version = c.version + 1, position = target, due_at = ahead, lease_id = null, lease_end = null, last_lease = null, retries = 0,
            suspect_until = 0
        where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
        partition_id := source.id;
        consumer := source.name;
        due := ahead < 'infinity';
        return next;
    end loop;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.shelve(queue text, partition text, encrypted boolean, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], bodies bytea[])
 RETURNS boolean
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
begin
    perform from {schema}.maintenance m where m.name = 'push' and m.enabled for share;
    if not found then
        return false;
    end if;
    insert into {schema}.buffered (queue, partition, encrypted, message_id, transaction_id, trace_id, producer, payload)
    select shelve.queue, shelve.partition, shelve.encrypted, m.id, m.transaction_id, m.trace_id, m.producer, m.body
    from unnest(ids, transaction_ids, trace_ids, producers, bodies) with ordinality as m (id, transaction_id, trace_id, producer, body, place)
    order by m.place;
    return true;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.subscribe(queue_id integer, group_name text, mode text, since timestamp with time zone, waited_ms bigint)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
AS $function$
#variable_conflict use_column
declare
    own integer;
    still bigint[];
begin
    perform from {schema}.queue q where q.id = subscribe.queue_id for update;
    if not found then
        return null;
    end if;
    select c.id into own from {schema}.consumer c
    where c.queue_id = subscribe.queue_id and md5(c.name) = md5(group_name) and c.name = group_name;
    if found then
        return own;
    end if;
    insert into {schema}.consumer (queue_id, name, mode, since) values (subscribe.queue_id, group_name, subscribe.mode, subscribe.since)
    returning id into own;
    still := array(select p.id from {schema}.partition p where p.queue_id = subscribe.queue_id order by p.id for no key update skip locked);
    insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
    select p.id, own, b.position, case when b.position >= h.head and p.id = any (still) then 'infinity' else now() end
    from {schema}.partition p
    left join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    cross join lateral (select coalesce(l.next_offset, p.first_offset) as head) h
    cross join lateral (select case subscribe.mode
        when 'new' then {schema}.offset_at(p.id, now() - waited_ms * interval '1 ms', h.head)
        when 'timestamp' then {schema}.offset_at(p.id, subscribe.since, h.head)
        else p.first_offset end as position) b
    where p.queue_id = subscribe.queue_id;
    return own;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.sweep_removed(budget integer)
 RETURNS integer
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
AS $function$
#variable_conflict use_column
declare
    gone  bigint;
    taken integer;
    done  integer;
begin
    for gone in select r.partition_id from {schema}.removed_partition r order by r.partition_id limit budget for update skip locked loop
        done := coalesce(done, 0);
        delete from {schema}.segment s
        where s.partition_id = gone and s.first_offset = any (array(
            select f.first_offset from {schema}.segment f where f.partition_id = gone order by f.first_offset limit budget));
        get diagnostics taken = row_count;
        budget := budget - taken - 1;
        exit when budget <= 0;
        delete from {schema}.cursor c where c.partition_id = gone;
        delete from {schema}.removed_partition r where r.partition_id = gone;
        done := done + 1;
    end loop;
    return done;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}."trim"(partitions bigint[], uptos bigint[], segments integer, patient boolean)
 RETURNS TABLE(partition_id bigint, messages bigint, more boolean)
 LANGUAGE plpgsql
 SET search_path TO 'reveille_own'
 SET plan_cache_mode TO 'force_generic_plan'
 SET enable_seqscan TO 'off'
 SET enable_bitmapscan TO 'off'
AS $function$
#variable_conflict use_column
declare
    task  record;
    own   bigint;
    floor bigint;
    edge  bigint;
    taken integer;
begin
    for task in select n.id, n.upto from unnest(partitions, uptos) as n (id, upto) order by n.id loop
        if patient then
            select p.first_offset into floor from {schema}.partition p where p.id = task.id for no key update;
        else
            select p.first_offset into floor from {schema}.partition p where p.id = task.id for no key update skip locked;
            if not found and exists (select from {schema}.partition p where p.id = task.id) then
                return query select task.id, 0::bigint, true;
                continue;
            end if;
        end if;
        continue when not found;
        select max(f.next_offset), count(*) into edge, taken from (
            select s.next_offset from {schema}.segment s where s.partition_id = task.id and s.first_offset < task.upto order by s.first_offset limit segments) f
        where f.next_offset <= task.upto;
        continue when edge is null;
        delete from {schema}.segment s where s.partition_id = task.id and s.first_offset < edge;
        update {schema}.partition p set first_offset = edge where p.id = task.id;
        partition_id := task.id;
        messages := edge - floor;
        more := taken = segments;
        return next;
    end loop;
end
$function$;

CREATE OR REPLACE FUNCTION {schema}.unsubscribe(consumer_id integer)
 RETURNS boolean
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
    home integer := (select k.queue_id from {schema}.consumer k where k.id = unsubscribe.consumer_id);
begin
    perform from (select p.id from {schema}.partition p where p.queue_id = home order by p.id) p
    cross join lateral (select c.version from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = unsubscribe.consumer_id
                        order by c.version desc limit 1 for update) c;
    perform from {schema}.queue q where q.id = home for update;
    delete from {schema}.cursor c using {schema}.partition p
    where p.queue_id = home and c.partition_id = p.id and c.consumer_id = unsubscribe.consumer_id;
    delete from {schema}.consumer k where k.id = unsubscribe.consumer_id;
    return found;
end
$function$;
