-- Leases the partitions that have been due longest to the seats that ask, and says when the next is due.
-- Source: a queue, and one partition of it or any.
-- Seats:  `leases`: what each lease is called; `leases_ms`: for how long, null for what the queue says; `batches`:
--         messages at most, `most` by the greediest, and not more than so many
--         segments of a partition; `widths`: partitions at most. Each seat gets a partition before any gets a second.
-- Room:   bytes of the answer to each seat: payloads and everything else that is told of each message. A segment that
--         does not fit is left for the next claim, unless it is the first: a
--         segment has 256 kB or one message. Sizes are read from the segments' rows; the payloads of what is left are
--         not read.
-- Group:  `mode`, `since`: where it begins if it does not exist yet; `waited_ms`: for how long it has been waited for,
--         see functions/subscribe.sql.
-- ScanBound:  what was due before it is not read, and neither is what is due later than now, where the leases lie that
--         ended early: see crates/wake/src/floor.rs. Both are bounds of the index.
-- Rows:   one per segment and seat, in order, with the messages of the seat and when they became due; then one of nulls
--         but for next_due_ms, how many messages became dead letters in `retries` (lease_partitions has a row of its
--         own for that) and, if nothing was left that is due, the time in due_us. None at all: there is no such queue.
-- Locks:  cursors by cursor_due forwards, skip locked; of a partition that turns out to be empty its row, skip locked.
--         Everything else is found by primary keys.
-- Commit: is not waited for to be on disk, unless a group is made. A crash of the database may forget the newest
--         leases, and their messages come again, as if the leases had ended: an ack of
--         them is refused. Nothing that anybody was told to be stored or done depends on it: a push or an ack that
--         comes later takes all before it to the disk.
-- Expiry: a cursor that is due and has a lease was not acked in time: see functions/expire_lease.sql. What such a lease
--         held is leased one message at a time, and a seat that gets such
--         a message gets nothing else.
-- Cost:   80 us, and 10 us a seat. The usual case is here, as a loop of small statements: half of what a statement
--         costs is making its plan ready, and one for all seats needs 40 us
--         more for that. Everything else is in lease_partitions.
create or replace function {schema}.claim(
    source_queue text, source_partition text, group_name text,
    mode text, since timestamptz, waited_ms bigint, leases uuid[], leases_ms bigint[], batches integer[], most integer, room integer, widths integer[], bound_us bigint
) returns table (
    next_due_ms float8, due_us bigint, seat integer, lease_ms bigint, partition_id bigint, partition_name text, first_offset bigint,
    created_at timestamptz, encrypted boolean, retries integer,
    ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[]
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    bound   timestamptz := coalesce(to_timestamp(bound_us / 1000000.0), '-infinity');
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
            bound := greatest(bound, case when bound_us is not null and chair = cardinality(widths) then reached end);
        end if;
        for attempt in 1..2 loop
            if source_partition is null then
                soonest := (select c.due_at from {schema}.cursor c
                            where c.consumer_id = own and c.due_at >= bound and c.due_at < 'infinity' and c.due_at <= case when bound_us is null then 'infinity' else now() end
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
$$;
