-- Leases the partitions of a queue that have been due longest to waiting pops, and says when the next one is due.
-- Source:  source_partition: null: any partition of the queue.
-- Group:   start_mode, start_at, waited_ms: where it starts to read if it does not exist: see functions/subscribe.sql.
-- Waiters: one array element each. lease_ids: the id of each lease. lease_times_ms: null: as the queue says.
--          max_messages; max_partitions. Each waiter gets one partition before any gets a second.
-- max_bytes: of the answer to each waiter: payloads and everything else that is sent per message. A segment that does
--          not fit is left for the next claim, unless it is the first: a segment has 256 kB or one message. Sizes are
--          read from the rows of the segments; the payloads of what is left are not read.
-- bound_us: cursors that were due before it are not read, and neither are those that are due later than now, where the
--          leases are that ended early: see crates/wake, ScanBounds. Both bound the index scan. null: no bound.
-- in_write: the claim is part of the statement of a push, whose messages it sees: it must be durable.
-- Rows:    one per segment and waiter, in order: the messages, and when their cursor became due. The last row has null
--          for `waiter`: next_due_ms; dead_lettered, the number of messages that became dead letters; now_us, the time,
--          if nothing that is due was left. lease_partitions may add such a row with dead_lettered alone.
--          No row: there is no such queue.
-- Pauses:  of a paused queue or group, and during pop maintenance, nothing is due until it ends; this wakes waiters.
-- Locks:   cursors by cursor_due forwards, skip locked; of a partition that is empty its row, skip locked.
-- Commit:  with synchronous_commit = off, unless a group is created. A crash of the database may forget the newest
--          leases: their messages are delivered again, and an ack of them is refused, as if the leases had expired.
--          Nothing that was reported as stored or acked depends on it.
-- Expiry:  a cursor that is due and has a lease was not acked in time: see functions/expire_lease.sql. Messages of such
--          a lease are leased one at a time, and a waiter that gets one gets nothing else.
-- Cost:    80 us, and 10 us per waiter. The usual case is here, as a loop of small statements: one statement for all
--          waiters takes 40 us more to start. Everything else is in lease_partitions.
create or replace function {schema}.claim(
    source_queue text, source_partition text, group_name text,
    start_mode text, start_at timestamptz, waited_ms bigint,
    lease_ids uuid[], lease_times_ms bigint[], max_messages integer[], max_partitions integer[],
    max_bytes integer, bound_us bigint, in_write boolean
) returns table (
    waiter integer, lease_ms bigint, due_us bigint, partition_id bigint, partition_name text, first_offset bigint,
    created_at timestamptz, encrypted boolean, retries integer,
    ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[],
    next_due_ms float8, dead_lettered integer, now_us bigint
)
language plpgsql volatile set search_path = reveille_own {index_plans}
    set jit = off
as $$
#variable_conflict use_column
declare
    -- In a push, its messages are due later than its beginning.
    as_of           timestamptz := case when in_write then clock_timestamp() else now() end;
    source          record;
    own_consumer_id integer;
    bound           timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
    -- Bytes of the answer per message beside its payload, its partition's name and its ids.
    overhead        bigint := 400 + octet_length(source_queue) + octet_length(group_name);
    -- Segments of a partition for one waiter.
    segments_max    constant integer := 256;
    -- Waiters that have something.
    served          integer := 0;
    expired         integer := 0;
    is_done         boolean := false;
    -- One cursor: as it was found, and where its messages start and end.
    reader          record;
    lease_version   bigint;
    start_offset    bigint;
    start_retries   integer;
    suspects_end    bigint;
    is_single       boolean;
    end_offset      bigint;
    taken_until     bigint;
    taken_bytes     bigint;
    part            record;
    low             bigint;
    high            bigint;
    last_due_at     timestamptz;
    next_due_at     timestamptz;
    ignored         text;
begin
    -- The queue and the consumer group.
    perform {schema}.age_plans();
    select q.id,
           q.lease_seconds * 1000::bigint as lease_ms,
           q.delayed_processing_seconds = 0 and q.window_buffer_seconds = 0 as is_plain,
           q.charge_expired_leases,
           k.id as consumer_id,
           q.paused_at is not null or k.paused_at is not null
               or (select m.enabled from {schema}.maintenance m where m.name = 'pop') as is_paused
    into source
    from {schema}.queue q
    left join {schema}.consumer k on k.queue_id = q.id and md5(k.name) = md5(group_name) and k.name = group_name
    where md5(q.name) = md5(source_queue) and q.name = source_queue;
    if not found then
        return;
    end if;
    if source.consumer_id is not null and not in_write then
        ignored := set_config('synchronous_commit', 'off', true);
    end if;
    if source.is_paused then
        now_us := (extract(epoch from as_of) * 1000000)::bigint;
        dead_lettered := 0;
        return next;
        return;
    end if;
    own_consumer_id := coalesce(
        source.consumer_id,
        {schema}.subscribe(source.id, group_name, start_mode, start_at, waited_ms));

    -- The usual case: one partition per waiter, any partition, no delay and no window.
    if 1 = all (max_partitions) and source_partition is null and source.is_plain then
        for reader in
            select c.*, p.name, p.first_offset
            from (
                select c.partition_id, c.version, c.position, c.retries, c.due_at, c.lease_id, c.suspect_until
                from {schema}.cursor c
                where c.consumer_id = own_consumer_id
                  and c.due_at <= as_of and c.due_at >= bound and c.due_at < 'infinity'
                order by c.due_at
                limit cardinality(max_partitions)
                for update skip locked
            ) c
            join {schema}.partition p on p.id = c.partition_id
        loop
            -- Where to start.
            lease_version := reader.version;
            start_offset := reader.position;
            start_retries := reader.retries;
            suspects_end := reader.suspect_until;
            if reader.lease_id is not null and source.charge_expired_leases then
                select e.version, e.position, e.retries, e.suspect_until,
                       expired + (e.lease_id is null and e.last_lease is null)::integer
                into lease_version, start_offset, start_retries, suspects_end, expired
                from {schema}.expire_lease(own_consumer_id, reader.partition_id) e;
            end if;
            if start_offset < reader.first_offset then
                -- Retention removed what lies before.
                start_offset := reader.first_offset;
                start_retries := (start_offset < suspects_end)::integer;
            end if;
            is_single := source.charge_expired_leases and start_offset < suspects_end;
            end_offset := case
                when is_single then {schema}.first_undeleted(reader.partition_id, start_offset) + 1
                else start_offset + max_messages[served + 1] end;

            -- Read up to there, as far as there is room.
            taken_until := start_offset;
            taken_bytes := 0;
            for part in
                select s.first_offset, s.next_offset, s.created_at, s.encrypted,
                       s.ids, s.transaction_ids, s.trace_ids, s.producers, s.payloads,
                       pg_column_size(s.payloads) + pg_column_size(s.transaction_ids)
                           + coalesce(pg_column_size(s.trace_ids), 0) + coalesce(pg_column_size(s.producers), 0)
                           + (s.next_offset - s.first_offset) * (overhead + octet_length(reader.name)) as bytes
                from {schema}.segment s
                where s.partition_id = reader.partition_id
                  and s.first_offset < end_offset
                  and s.first_offset >= coalesce(
                      (select containing.first_offset
                       from {schema}.segment containing
                       where containing.partition_id = reader.partition_id and containing.first_offset <= start_offset
                       order by containing.first_offset desc
                       limit 1),
                      start_offset)
                order by s.first_offset
                limit least(max_messages[served + 1], segments_max)
            loop
                exit when part.next_offset <= start_offset
                    or taken_until > start_offset and taken_bytes + part.bytes > max_bytes;
                waiter := served;
                lease_ms := coalesce(lease_times_ms[served + 1], source.lease_ms);
                due_us := (extract(epoch from greatest(reader.due_at, 'epoch')) * 1000000)::bigint;
                partition_id := reader.partition_id;
                partition_name := reader.name;
                first_offset := greatest(part.first_offset, start_offset);
                created_at := part.created_at;
                encrypted := part.encrypted;
                retries := start_retries;
                if part.first_offset >= start_offset and part.next_offset <= end_offset then
                    ids := part.ids;
                    transaction_ids := part.transaction_ids;
                    trace_ids := part.trace_ids;
                    producers := part.producers;
                    payloads := part.payloads;
                else
                    low := greatest(start_offset - part.first_offset, 0) + 1;
                    high := end_offset - part.first_offset;
                    ids := part.ids[low:high];
                    transaction_ids := part.transaction_ids[low:high];
                    trace_ids := part.trace_ids[low:high];
                    producers := part.producers[low:high];
                    payloads := part.payloads[low:high];
                end if;
                return next;
                taken_until := least(part.next_offset, end_offset);
                taken_bytes := taken_bytes + part.bytes;
            end loop;
            if taken_until = start_offset then
                perform {schema}.postpone(own_consumer_id, array[reader.partition_id], 0, 0);
                continue;
            end if;

            -- Lease what was read.
            served := served + 1;
            last_due_at := reader.due_at;
            update {schema}.cursor c
            set version = c.version + 1,
                read_at = as_of,
                position = start_offset,
                retries = start_retries,
                due_at = as_of + lease_ms * interval '1 ms',
                lease_id = lease_ids[served],
                lease_end = taken_until,
                lease_is_single = is_single or taken_until = start_offset + 1,
                last_lease = coalesce(c.lease_id, c.last_lease)
            where c.partition_id = reader.partition_id
              and c.consumer_id = own_consumer_id
              and c.version = lease_version;
        end loop;
        is_done := served > 0;
        -- If every waiter has something, what is due before the last of it is locked by others: the next scan without a
        -- bound finds it.
        if bound_us is not null and served = cardinality(max_partitions) then
            bound := greatest(bound, last_due_at);
        end if;
    end if;

    -- When the next cursor is due; if that is now and nothing was leased, everything but the usual case.
    for attempt in 1..2 loop
        if source_partition is null then
            next_due_at := (
                select c.due_at
                from {schema}.cursor c
                where c.consumer_id = own_consumer_id
                  and c.due_at >= bound and c.due_at < 'infinity'
                  and c.due_at <= case when bound_us is null then 'infinity' else as_of end
                order by c.due_at
                limit 1);
        else
            next_due_at := (
                select newest.due_at
                from {schema}.partition p
                cross join lateral (
                    select c.due_at
                    from {schema}.cursor c
                    where c.partition_id = p.id and c.consumer_id = own_consumer_id
                    order by c.version desc
                    limit 1
                ) newest
                where p.queue_id = source.id and md5(p.name) = md5(source_partition) and p.name = source_partition);
        end if;
        exit when is_done or next_due_at is null or next_due_at > as_of;
        is_done := true;
        return query
        select *
        from {schema}.lease_partitions(
            own_consumer_id, source.id, source_partition, lease_ids, lease_times_ms, max_messages, max_bytes, overhead,
            -- The waiter of each partition: all of them once, then those that want a second.
            array(
                select w.number::integer
                from unnest(max_partitions) with ordinality as w (partitions, number),
                     generate_series(1, w.partitions) as turn
                order by turn, w.number),
            bound, as_of);
    end loop;

    -- The last row. The arrays still hold the last segment, and must not be sent twice.
    waiter := null;
    ids := null;
    transaction_ids := null;
    trace_ids := null;
    producers := null;
    payloads := null;
    dead_lettered := expired;
    if next_due_at is null or next_due_at > as_of then
        now_us := (extract(epoch from as_of) * 1000000)::bigint;
    end if;
    if next_due_at < 'infinity' then
        next_due_ms := greatest(extract(epoch from next_due_at - as_of) * 1000, 0);
    end if;
    return next;
end
$$;
