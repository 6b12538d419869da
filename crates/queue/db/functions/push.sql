-- Appends messages to partitions, in one segment each or, if they are large, in several, and makes the cursors due that
-- had read everything.
-- Per partition: partitions: their ids, ascending, each once. cached_until: the caller knows all hashes before this
--              offset, and none of the messages is among them. revisions: of the queues, as the caller encrypted the
--              payloads for. last_segments: the index of the partition's last segment in `segment_ends`.
-- Per segment: segment_ends: the index of its last message in the arrays that follow.
-- Per message: ids, transaction_ids, hashes, bodies, trace_ids, producers.
-- ignore_max_size: the messages were accepted during push maintenance: no queue is too full for them.
-- Rows:  one per partition, in order.
--        status: `appended`, from the offset appended_from on.
--                `gone`: the partition does not exist, or its queue has another revision, or the caller knows offsets
--                that were never committed.
--                `stale`: other processes appended one of these hashes; checked before `full`, because a duplicate
--                needs no room.
--                `full`: the queue has reached `maxSize`.
--                `locked`: another transaction holds the partition for too long.
--        new_hashes, new_hashes_from: the hashes from cached_until on that were there before, and the offset where they
--                start. retained_from: the first offset of the partition that was not removed.
-- Locks: the partitions, skip locked after a short wait, so that a long transaction of a caller delays only pushes to
--        the same partition; `patient` waits. Then cursors that are due at infinity, which change only under the
--        partition's lock.
-- Index: primary keys; that of segment is read backwards from its end.
create or replace function {schema}.push(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    partitions bigint[], cached_until bigint[], revisions integer[], last_segments integer[], segment_ends integer[],
    ids uuid[], transaction_ids text[], hashes bigint[], bodies bytea[], trace_ids text[], producers text[],
    ignore_max_size boolean
) returns table (
    number integer, status text, appended_from bigint, new_hashes bigint[], new_hashes_from bigint,
    retained_from bigint, backend integer
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set jit = off
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    locked    bigint[];
    locked_at timestamptz;
begin
    -- Lock the partitions.
    if patient then
        locked := array(
            select p.id
            from unnest(partitions) as wanted (id)
            cross join lateral (
                select p.id from {schema}.partition p where p.id = wanted.id for no key update
            ) p);
    else
        for attempt in 1..4 loop
            locked := array(
                select p.id
                from unnest(partitions) as wanted (id)
                cross join lateral (
                    select p.id from {schema}.partition p where p.id = wanted.id for no key update skip locked
                ) p);
            exit when cardinality(locked) = cardinality(partitions)
                or attempt = 4
                or cardinality(locked) = (
                    select count(*)
                    from unnest(partitions) as wanted (id)
                    join {schema}.partition p on p.id = wanted.id);
            perform pg_sleep(0.002);
        end loop;
    end if;
    locked_at := clock_timestamp();

    -- Decide about each, append, and make cursors due.
    return query
    with target as materialized (
        select input.number, input.id, input.cached_until,
               previous.last_segment + 1 as first_segment,
               input.last_segment,
               coalesce(segment_ends[previous.last_segment], 0) + 1 as first_message,
               segment_ends[input.last_segment] as last_message,
               p.queue_id,
               p.first_offset as retained_from,
               coalesce(s.next_offset, p.first_offset) as next_offset,
               greatest(s.created_at, locked_at) as created_at,
               q.encryption_enabled as encrypted,
               case when p.id is null then
                        case when exists (select from {schema}.partition other where other.id = input.id) then 'locked'
                             else 'gone' end
                    when q.revision <> input.revision then 'gone'
                    when input.cached_until > coalesce(s.next_offset, p.first_offset) then 'gone'
                    -- Evaluated once for all partitions, and only if a queue has a limit.
                    when q.max_size > 0 and not ignore_max_size
                         and q.id = any ((select {schema}.full_queues(locked))::integer[]) then 'full' end as problem
        from unnest(partitions, cached_until, revisions, last_segments) with ordinality
            as input (id, cached_until, revision, last_segment, number)
        cross join lateral (select coalesce(last_segments[input.number::integer - 1], 0) as last_segment) previous
        left join lateral (
            select p.id, p.queue_id, p.first_offset
            from {schema}.partition p
            where p.id = input.id and p.id = any (locked)
        ) p on true
        left join lateral (
            select q.id, q.encryption_enabled, q.revision, q.max_size
            from {schema}.queue q
            where q.id = p.queue_id
        ) q on true
        left join lateral (
            select s.next_offset, s.created_at
            from {schema}.segment s
            where s.partition_id = p.id
            order by s.first_offset desc
            limit 1
        ) s on true
    ), decided as materialized (
        select t.*, stored.hashes as new_hashes, stored.first_offset as new_hashes_from,
               case when stored.hashes && push.hashes[t.first_message : t.last_message] then 'stale'
                    else coalesce(t.problem, 'appended') end as status
        from target t
        left join lateral (
            select array_agg(element.hash order by s.first_offset, element.number) as hashes,
                   min(s.first_offset) as first_offset
            from {schema}.segment s
            cross join lateral unnest(s.hashes) with ordinality as element (hash, number)
            where s.partition_id = t.id and s.first_offset >= t.cached_until and s.first_offset < t.next_offset
        ) stored on t.next_offset > t.cached_until and coalesce(t.problem, 'full') = 'full'
    ), appended as (
        insert into {schema}.segment (
            partition_id, first_offset, next_offset, created_at, encrypted,
            hashes, ids, transaction_ids, trace_ids, producers, payloads)
        select d.id,
               d.next_offset + (slice.first - d.first_message),
               d.next_offset + (slice.last - d.first_message + 1),
               d.created_at, d.encrypted,
               push.hashes[slice.first : slice.last],
               push.ids[slice.first : slice.last],
               push.transaction_ids[slice.first : slice.last],
               nullif(push.trace_ids[slice.first : slice.last], slice.nulls),
               nullif(push.producers[slice.first : slice.last], slice.nulls),
               push.bodies[slice.first : slice.last]
        from (
            select d.*, generate_series(d.first_segment, d.last_segment) as segment
            from decided d
            where d.status = 'appended'
        ) d
        cross join lateral (
            select coalesce(segment_ends[d.segment - 1], 0) + 1 as first,
                   segment_ends[d.segment] as last,
                   array_fill(
                       null::text,
                       array[segment_ends[d.segment] - coalesce(segment_ends[d.segment - 1], 0)]) as nulls
        ) slice
    ), made_due as (
        update {schema}.cursor c
        set version = c.version + 1,
            due_at = idle.created_at
                + greatest(idle.delayed_processing_seconds, idle.window_buffer_seconds) * interval '1 s'
        from (
            select newest.partition_id, newest.consumer_id, newest.version,
                   d.created_at, q.delayed_processing_seconds, q.window_buffer_seconds
            from decided d
            cross join lateral (
                select q.delayed_processing_seconds, q.window_buffer_seconds
                from {schema}.queue q
                where q.id = d.queue_id
                offset 0
            ) q
            cross join lateral (select k.id from {schema}.consumer k where k.queue_id = d.queue_id offset 0) k
            cross join lateral (
                select c.partition_id, c.consumer_id, c.version, c.due_at
                from {schema}.cursor c
                where c.partition_id = d.id and c.consumer_id = k.id
                order by c.version desc
                limit 1
            ) newest
            where d.status = 'appended' and newest.due_at = 'infinity'
        ) idle
        where c.partition_id = idle.partition_id
          and c.consumer_id = idle.consumer_id
          and c.version = idle.version
    )
    select d.number::integer, d.status, case when d.status = 'appended' then d.next_offset end,
           d.new_hashes, d.new_hashes_from, d.retained_from, pg_backend_pid()
    from decided d
    order by d.number;
    perform {schema}.finish_batch(batch_id, array[]::text[], channels, payloads);
end
$$;
