-- Leases the partitions that have been due longest to the seats that ask, and says when the next is due.
-- Source: a queue, and one partition of it or any.
-- Seats:  `leases`: what each lease is called; `leases_ms`: for how long, null for what the queue says; `batches`: messages at most, `most` by the greediest, and not more than so many
--         segments of a partition, and of as few that their bytes are just `room`; `widths`: partitions at most. Each seat gets a partition before any gets a second.
-- Group:  `mode`, `since`: where it begins if it does not exist yet; `waited_ms`: for how long it has been waited for, see functions/subscribe.sql.
-- Floor:  what was due before it is not read, and neither is what is due later than now: see crates/wake/src/floor.rs.
-- Rows:   one per segment and seat, in order, with the messages of the seat and when they became due; then one of nulls but for next_due_ms and, if nothing was left that is
--         due, the time in due_us. None at all: there is no such queue.
-- Locks:  cursors, skip locked; of a partition that turns out to be empty its row, skip locked.
-- Index:  cursor_due forwards; then primary keys.
-- Commit: is not waited for to be on disk, unless a group is made. A crash of the database may forget the newest leases, and their messages come again, as if the leases had ended: an ack of
--         them is refused. Nothing that anybody was told to be stored or done depends on it: a push or an ack that comes later takes all before it to the disk.
-- Cost:   the usual case is one statement for all seats, and a small one: half of what a statement costs here is making its plan ready. Everything else, and what that one
--         found nothing to read in, is in lease_partitions.
create or replace function {schema}.claim(
    source_queue text, source_partition text, group_name text,
    mode text, since timestamptz, waited_ms bigint, leases uuid[], leases_ms bigint[], batches integer[], most integer, room integer, widths integer[], floor_us bigint
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
    bound   timestamptz := coalesce(to_timestamp(floor_us / 1000000.0), '-infinity');
    soonest timestamptz;
    own     integer;
    source  record;
    served  boolean := false;
    ignored text;
begin
    select q.id, q.lease_seconds * 1000::bigint as lease_ms, q.delayed_processing_seconds = 0 and q.window_buffer_seconds = 0 as plain, k.id as consumer_id,
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
            return query
            with seated as materialized (
                select c.partition_id, c.version, d.due_at, p.name, e.position, e.retries, f.first_offset as start, row_number() over () as seat,
                       (select max(s.next_offset) from (
                            select s.next_offset, sum(pg_column_size(s.payloads)) over (order by s.first_offset) - pg_column_size(s.payloads) as before
                            from {schema}.segment s where s.partition_id = c.partition_id and s.first_offset >= f.first_offset
                            order by s.first_offset limit most) s
                        where s.before < room) as upto
                from (
                    select c.partition_id, c.version, c.due_at from {schema}.cursor c
                    where c.consumer_id = own and c.due_at <= now() and c.due_at >= bound and c.due_at < 'infinity' order by c.due_at limit cardinality(widths) * 2 + 16) d
                cross join lateral (select c.partition_id, c.version, c.position, c.retries from {schema}.cursor c
                                    where c.partition_id = d.partition_id and c.consumer_id = own and c.version = d.version for update skip locked) c
                join {schema}.partition p on p.id = c.partition_id
                -- What lies before the partition's first message was removed.
                cross join lateral (select greatest(c.position, p.first_offset) as position, case when c.position < p.first_offset then 0 else c.retries end as retries) e
                cross join lateral (
                    select f.first_offset, f.next_offset from {schema}.segment f
                    where f.partition_id = c.partition_id and f.first_offset <= e.position order by f.first_offset desc limit 1) f
                where f.next_offset > e.position
                limit cardinality(widths)
            ), leased as (
                update {schema}.cursor c
                set version = c.version + 1, read_at = now(), last_lease = coalesce(c.lease_id, c.last_lease), position = t.position, retries = t.retries,
                    due_at = now() + coalesce(leases_ms[t.seat], source.lease_ms) * interval '1 ms', lease_id = leases[t.seat], lease_end = least(t.upto, t.position + batches[t.seat])
                from seated t
                where c.partition_id = t.partition_id and c.consumer_id = own and c.version = t.version
            )
            select null::float8, (extract(epoch from greatest(t.due_at, 'epoch')) * 1000000)::bigint, t.seat::integer - 1, coalesce(leases_ms[t.seat], source.lease_ms), t.partition_id, t.name,
                   s.first_offset + s.skip, s.created_at, s.encrypted, t.retries,
                   s.ids[s.skip + 1 : s.skip + s.amount], s.transaction_ids[s.skip + 1 : s.skip + s.amount],
                   s.trace_ids[s.skip + 1 : s.skip + s.amount], s.producers[s.skip + 1 : s.skip + s.amount], s.payloads[s.skip + 1 : s.skip + s.amount]
            from seated t
            cross join lateral (
                select s.*, greatest(t.position - s.first_offset, 0)::integer as skip,
                       (least(s.next_offset, t.position + batches[t.seat]) - greatest(s.first_offset, t.position))::integer as amount
                from {schema}.segment s
                where s.partition_id = t.partition_id and s.first_offset >= t.start and s.first_offset < least(t.upto, t.position + batches[t.seat])
                order by s.first_offset) s;
            served := found;
        end if;
        for attempt in 1..2 loop
            if source_partition is null then
                soonest := (select c.due_at from {schema}.cursor c
                            where c.consumer_id = own and c.due_at >= bound and c.due_at < 'infinity' and (floor_us is null or c.due_at <= now())
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
                own, source.id, source_partition, leases, leases_ms, batches, room,
                -- Whose turn it is to get a partition: everybody once, then who wants a second.
                array(select w.seat::integer from unnest(widths) with ordinality as w (width, seat), generate_series(1, w.width) as round order by round, w.seat), bound);
        end loop;
    end if;
    due_us := case when soonest is null or soonest > now() then (extract(epoch from now()) * 1000000)::bigint end;
    next_due_ms := case when soonest < 'infinity' then greatest(extract(epoch from soonest - now()) * 1000, 0) end;
    return next;
end
$$;
