-- Leases partitions of one queue to the seats that `turns` names, each in its turn: see functions/claim.sql. Here is
-- what a queue may ask for (a delay, a window), what a seat may
-- (several partitions, one in particular), and what to do about a partition that is due and has nothing to read.
-- Rows: as there; and one of nulls with a number in `retries` if messages became dead letters.
drop function if exists {schema}.lease_partitions(integer, integer, text, uuid[], bigint[], integer[], integer, integer[], timestamptz);
create or replace function {schema}.lease_partitions(
    own integer, source_id integer, source_partition text, leases uuid[], leases_ms bigint[], batches integer[], room integer, overhead bigint,
    turns integer[], bound timestamptz
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
$$;
