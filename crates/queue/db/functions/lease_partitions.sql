-- Leases partitions of one queue to waiting pops: see functions/claim.sql. This is everything but the usual case: a
-- delay or a window of the queue, several partitions for a waiter or one in particular, and partitions that are due and
-- have nothing to read.
-- as_of:   the time: what is due by then is leased.
-- waiters: the waiter of the first partition, of the second, and so on.
-- Rows:    as of claim, without its last row; if messages became dead letters, a row with dead_lettered alone.
create or replace function {schema}.lease_partitions(
    own_consumer_id integer, source_id integer, source_partition text,
    lease_ids uuid[], lease_times_ms bigint[], max_messages integer[], max_bytes integer, overhead bigint,
    waiters integer[], bound timestamptz, as_of timestamptz
) returns table (
    waiter integer, lease_ms bigint, due_us bigint, partition_id bigint, partition_name text, first_offset bigint,
    created_at timestamptz, encrypted boolean, retries integer,
    ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[],
    next_due_ms float8, dead_lettered integer, now_us bigint
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set jit = off
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source  record;
    picked  record;
    longest integer := (select max(m) from unnest(max_messages) as m);
    given   bigint;
    expired integer := 0;
begin
    select q.* into source from {schema}.queue q where q.id = source_id;

    -- Lock due cursors and pick what each waiter gets. Expired leases are ended first, and their partitions picked in
    -- the next attempt; what expires after the last attempt is left for the next claim.
    for attempt in 1..4 loop
        with due as materialized (
            select *
            from (
                select c.partition_id, c.version, c.due_at
                from {schema}.cursor c
                where source_partition is null
                  and c.consumer_id = own_consumer_id
                  and c.due_at <= as_of and c.due_at >= bound and c.due_at < 'infinity'
                order by c.due_at
                limit cardinality(waiters) * 2 + 16
            ) c
            union all
            select newest.partition_id, newest.version, newest.due_at
            from {schema}.partition p
            cross join lateral (
                select c.partition_id, c.version, c.due_at
                from {schema}.cursor c
                where c.partition_id = p.id and c.consumer_id = own_consumer_id
                order by c.version desc
                limit 1
            ) newest
            where p.queue_id = source.id
              and md5(p.name) = md5(source_partition) and p.name = source_partition
              and newest.due_at <= as_of
        ), locked as materialized (
            select c.partition_id, c.version, d.due_at,
                   -- Retention may have removed messages at the cursor.
                   greatest(c.position, p.first_offset) as position,
                   case when c.position < p.first_offset then (p.first_offset < c.suspect_until)::integer
                        else c.retries end as retries,
                   source.charge_expired_leases
                       and greatest(c.position, p.first_offset) < c.suspect_until as is_suspect,
                   source.charge_expired_leases and c.lease_id is not null as is_expired,
                   octet_length(p.name) as name_bytes
            from due d
            cross join lateral (
                select c.partition_id, c.version, c.position, c.retries, c.suspect_until, c.lease_id
                from {schema}.cursor c
                where c.partition_id = d.partition_id and c.consumer_id = own_consumer_id and c.version = d.version
                for update skip locked
            ) c
            join {schema}.partition p on p.id = c.partition_id
            limit cardinality(waiters)
        ), readable as materialized (
            -- How far each can be read: the longest batch, `max_bytes`, messages that are old enough. null: nothing.
            select l.*, content.next_offset, content.bytes,
                   row_number() over (
                       partition by content.next_offset is not null order by l.due_at, l.partition_id) as turn
            from (select * from locked l where not l.is_expired) l
            left join lateral (
                select max(fitting.next_offset) as next_offset, max(fitting.total_bytes) as bytes
                from (
                    select s.next_offset,
                           sum(s.bytes) over (order by s.first_offset) as total_bytes,
                           row_number() over (order by s.first_offset) as number
                    from (
                        select s.first_offset, s.next_offset,
                               pg_column_size(s.payloads) + pg_column_size(s.transaction_ids)
                                   + coalesce(pg_column_size(s.trace_ids), 0) + coalesce(pg_column_size(s.producers), 0)
                                   + (s.next_offset - s.first_offset) * (overhead + l.name_bytes) as bytes
                        from {schema}.segment s
                        where s.partition_id = l.partition_id
                          and s.next_offset > l.position
                          and s.first_offset < l.position + longest
                          and s.first_offset >= coalesce(
                              (select max(containing.first_offset)
                               from {schema}.segment containing
                               where containing.partition_id = l.partition_id
                                 and containing.first_offset <= l.position),
                              l.position)
                          and s.created_at <= as_of - source.delayed_processing_seconds * interval '1 s'
                        order by s.first_offset
                        limit longest
                    ) s
                ) fitting
                where fitting.total_bytes <= max_bytes or fitting.number = 1
            ) content on source.window_buffer_seconds = 0 or as_of >= (
                select s.created_at + source.window_buffer_seconds * interval '1 s'
                from {schema}.segment s
                where s.partition_id = l.partition_id
                order by s.first_offset desc
                limit 1)
        ), assigned as (
            select r.*,
                   waiters[r.turn] as waiter,
                   coalesce(
                       sum(least(r.next_offset - r.position, max_messages[waiters[r.turn]]))
                           over (of_waiter rows between unbounded preceding and 1 preceding), 0) as messages_before,
                   sum(r.bytes) over of_waiter as total_bytes,
                   first_value(r.is_suspect) over of_waiter as starts_with_suspect,
                   row_number() over of_waiter as number
            from readable r
            where r.next_offset is not null
            window of_waiter as (partition by waiters[r.turn] order by r.turn)
        ), taken as (
            select a.*,
                   case when a.is_suspect
                        then least(a.next_offset, {schema}.first_undeleted(a.partition_id, a.position) + 1)
                        else least(a.next_offset, a.position + max_messages[a.waiter] - a.messages_before)
                        end::bigint as lease_end
            from assigned a
            where a.messages_before < max_messages[a.waiter]
              and (a.total_bytes <= max_bytes or a.number = 1)
              -- A suspect message is alone in its lease.
              and case when a.starts_with_suspect then a.number = 1 else not a.is_suspect end
        )
        select (select array_agg(l.partition_id) from locked l where l.is_expired) as expired,
               (select array_agg(r.partition_id) from readable r where r.next_offset is null) as empty,
               array_agg(t.partition_id order by t.turn) as partitions,
               array_agg(t.version order by t.turn) as versions,
               array_agg(t.position order by t.turn) as positions,
               array_agg(t.lease_end order by t.turn) as lease_ends,
               array_agg(t.waiter order by t.turn) as waiters,
               array_agg(t.retries order by t.turn) as retries,
               array_agg(t.due_at order by t.turn) as dues,
               array_agg(t.is_suspect or t.lease_end = t.position + 1 and own.partitions = 1 order by t.turn) as singles
        into picked
        from taken t
        cross join lateral (select count(*) as partitions from taken other where other.waiter = t.waiter) own;
        exit when picked.expired is null or attempt = 4;
        expired := expired + (
            select count(*)
            from unnest(picked.expired) as e (id)
            cross join lateral {schema}.expire_lease(own_consumer_id, e.id) c
            where c.lease_id is null and c.last_lease is null)::integer;
    end loop;
    if expired > 0 then
        dead_lettered := expired;
        return next;
    end if;

    -- Lease what was picked, and read it.
    if picked.partitions is not null then
        return query
        with leased as (
            update {schema}.cursor c
            set version = c.version + 1,
                read_at = as_of,
                position = t.position,
                retries = t.retries,
                due_at = as_of
                    + coalesce(lease_times_ms[t.waiter], source.lease_seconds * 1000::bigint) * interval '1 ms',
                lease_id = lease_ids[t.waiter],
                lease_end = t.lease_end,
                lease_is_single = t.is_single,
                last_lease = coalesce(c.lease_id, c.last_lease)
            from unnest(picked.partitions, picked.versions, picked.positions, picked.lease_ends, picked.waiters,
                        picked.retries, picked.singles)
                as t (partition_id, version, position, lease_end, waiter, retries, is_single)
            where c.partition_id = t.partition_id and c.consumer_id = own_consumer_id and c.version = t.version
        )
        select t.waiter - 1,
               coalesce(lease_times_ms[t.waiter], source.lease_seconds * 1000::bigint),
               (extract(epoch from greatest(t.due_at, 'epoch')) * 1000000)::bigint,
               t.partition_id, p.name, t.position + s.first - 1, s.created_at, s.encrypted, t.retries,
               s.ids[s.skip + 1 : s.skip + s.amount],
               s.transaction_ids[s.skip + 1 : s.skip + s.amount],
               s.trace_ids[s.skip + 1 : s.skip + s.amount],
               s.producers[s.skip + 1 : s.skip + s.amount],
               s.payloads[s.skip + 1 : s.skip + s.amount],
               null::float8, null::integer, null::bigint
        from unnest(picked.partitions, picked.positions, picked.lease_ends, picked.waiters, picked.retries, picked.dues)
            with ordinality as t (partition_id, position, lease_end, waiter, retries, due_at, turn)
        join {schema}.partition p on p.id = t.partition_id
        cross join lateral (
            select s.*,
                   greatest(t.position - s.first_offset, 0)::integer as skip,
                   greatest(s.first_offset - t.position, 0) + 1 as first,
                   (least(s.next_offset, t.lease_end) - greatest(s.first_offset, t.position))::integer as amount
            from {schema}.segment s
            where s.partition_id = t.partition_id
              and s.first_offset < t.lease_end
              and s.next_offset > t.position
              and s.first_offset >= coalesce(
                  (select max(containing.first_offset)
                   from {schema}.segment containing
                   where containing.partition_id = t.partition_id and containing.first_offset <= t.position),
                  t.position)
            order by s.first_offset
        ) s
        order by t.turn, s.first_offset;
        get diagnostics given = row_count;
        if given < cardinality(picked.partitions) then
            -- Retention has just removed a partition's messages: no consumer would know of the lease.
            update {schema}.cursor c
            set version = c.version + 1,
                due_at = as_of,
                lease_id = null,
                lease_end = null
            from unnest(picked.partitions, picked.lease_ends) as t (id, lease_end), {schema}.partition p
            where c.partition_id = t.id
              and c.consumer_id = own_consumer_id
              and c.lease_id = any (lease_ids)
              and p.id = t.id
              and p.first_offset >= t.lease_end;
        end if;
    end if;
    if picked.empty is not null then
        perform {schema}.postpone(
            own_consumer_id, picked.empty, source.delayed_processing_seconds, source.window_buffer_seconds);
    end if;
end
$$;
