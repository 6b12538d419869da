-- Leases the partitions that have been due longest to the seats that ask, and says when the next is due.
-- Source: a queue, one partition of it or any; or all queues of a namespace, a task, or both, those of a higher priority first.
-- Seats:  `leases`: what each lease is called; `leases_ms`: for how long, null for what the queue says; `batches`: messages at most; `widths`: partitions at most;
--         `autos`: consumed as it is read, without a lease. Each seat gets a partition before any gets a second. `modes`, `sinces`: where a group begins that does not
--         exist yet; the first seat's count.
-- Rows:   one per segment and seat, in order, with the messages of the seat; then one of nulls but for next_due_ms.
-- Locks:  cursors, skip locked; of a partition that turns out to be empty its row, skip locked.
-- Index:  cursor_due forwards; then primary keys.
create or replace function {schema}.claim(
    source_queue text, source_partition text, source_namespace text, source_task text, group_name text,
    modes text[], sinces timestamptz[], leases uuid[], leases_ms bigint[], batches integer[], widths integer[], autos boolean[]
) returns table (
    next_due_ms float8, seat integer, lease_ms bigint, queue_name text, partition_id bigint, partition_name text, consumer_id integer, version bigint,
    first_offset bigint, created_at timestamptz, encrypted boolean, retries integer,
    ids uuid[], transaction_ids text[], trace_ids text[], producers text[], payloads bytea[]
)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    wanted    integer := (select sum(w) from unnest(widths) as w);
    soonest   timestamptz := 'infinity';
    place     integer := 0;
    own       integer;
    source    record;
    candidate record;
    mine      record;
    part      record;
    room      integer;
    begins    bigint;
    upto      bigint;
    last      bigint;
    due       timestamptz;
    empty     boolean;
begin
    if exists (select from {schema}.maintenance m where m.name = 'pop' and m.enabled) then
        return next;
        return;
    end if;
    for source in
        select q.* from {schema}.queue q where md5(q.name) = md5(source_queue) and q.name = source_queue
        union all
        select * from (
            select q.* from {schema}.queue q
            where source_queue is null and (source_namespace is null or md5(q.namespace) = md5(source_namespace) and q.namespace = source_namespace)
              and (source_task is null or md5(q.task) = md5(source_task) and q.task = source_task)
            order by q.priority desc, q.id) q
    loop
        select k.id into own from {schema}.consumer k
        where k.queue_id = source.id and md5(k.name) = md5(group_name) and k.name = group_name;
        if not found then
            own := {schema}.subscribe(source.id, group_name, modes[1], sinces[1]);
            continue when own is null;
        end if;
        for candidate in
            select * from (
                select c.partition_id, c.version from {schema}.cursor c
                where source_partition is null and c.consumer_id = own and c.due_at <= now() and c.due_at < 'infinity'
                order by c.due_at limit wanted * 2 + 16) c
            union all
            select n.partition_id, n.version from {schema}.partition p
            cross join lateral (select c.partition_id, c.version, c.due_at from {schema}.cursor c
                                where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
            where p.queue_id = source.id and md5(p.name) = md5(source_partition) and p.name = source_partition and n.due_at <= now()
        loop
            if wanted <= 0 then
                soonest := now();
                exit;
            end if;
            select c.* into mine from {schema}.cursor c
            where c.partition_id = candidate.partition_id and c.consumer_id = own and c.version = candidate.version for update skip locked;
            if not found then
                soonest := now();
                continue;
            end if;
            due := null;
            if source.window_buffer_seconds > 0 then
                -- It yields nothing until its newest message is old enough.
                select s.created_at + source.window_buffer_seconds * interval '1 s' into due from {schema}.segment s
                where s.partition_id = mine.partition_id order by s.first_offset desc limit 1;
                if due > now() then
                    update {schema}.cursor c set version = c.version + 1, due_at = due, lease_id = null, lease_end = null
                    where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
                    continue;
                end if;
            end if;
            -- Whose it is: in turn, of those who have room.
            loop
                place := place % cardinality(widths) + 1;
                exit when widths[place] > 0;
            end loop;
            room := batches[place];
            upto := mine.position;
            empty := true;
            loop
                begins := upto;
                for part in
                    select s.* from {schema}.segment s
                    where s.partition_id = mine.partition_id and s.next_offset > begins and s.first_offset >= coalesce(
                        (select max(f.first_offset) from {schema}.segment f where f.partition_id = mine.partition_id and f.first_offset <= begins), begins)
                      and s.created_at <= now() - source.delayed_processing_seconds * interval '1 s'
                    order by s.first_offset limit room
                loop
                    first_offset := greatest(upto, part.first_offset);
                    -- Of what was deleted only the place is left: what comes first is a message.
                    while empty and first_offset < part.next_offset and part.ids[first_offset - part.first_offset + 1] is null loop
                        first_offset := first_offset + 1;
                    end loop;
                    last := least(part.next_offset, first_offset + room);
                    ids := part.ids[first_offset - part.first_offset + 1 : last - part.first_offset];
                    room := room - (last - first_offset);
                    upto := last;
                    if array_remove(ids, null) <> '{}' then
                        if empty then
                            empty := false;
                            begins := first_offset;
                            -- What failed before may be gone.
                            mine.retries := case when begins > mine.position then 0 else mine.retries end;
                            partition_name := (select p.name from {schema}.partition p where p.id = mine.partition_id);
                            lease_ms := coalesce(leases_ms[place], source.lease_seconds * 1000::bigint);
                        end if;
                        seat := place - 1;
                        queue_name := source.name;
                        partition_id := mine.partition_id;
                        consumer_id := own;
                        version := mine.version + 1;
                        created_at := part.created_at;
                        encrypted := part.encrypted;
                        retries := mine.retries;
                        transaction_ids := part.transaction_ids[first_offset - part.first_offset + 1 : last - part.first_offset];
                        trace_ids := part.trace_ids[first_offset - part.first_offset + 1 : last - part.first_offset];
                        producers := part.producers[first_offset - part.first_offset + 1 : last - part.first_offset];
                        payloads := part.payloads[first_offset - part.first_offset + 1 : last - part.first_offset];
                        return next;
                    end if;
                    exit when room = 0;
                end loop;
                -- If all of it was deleted, what comes behind it?
                exit when not empty or upto = begins;
            end loop;
            if empty then
                due := {schema}.due_after(mine.partition_id, upto, source.delayed_processing_seconds, source.window_buffer_seconds);
                if due > now() or upto > mine.position or mine.lease_id is not null then
                    update {schema}.cursor c set version = c.version + 1, position = upto, due_at = due, lease_id = null, lease_end = null
                    where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
                end if;
                soonest := least(soonest, due);
                continue;
            end if;
            if autos[place] then
                update {schema}.cursor c set version = c.version + 1, position = upto, read_at = now(), retries = 0, lease_id = null, lease_end = null,
                       due_at = {schema}.due_after(mine.partition_id, upto, source.delayed_processing_seconds, source.window_buffer_seconds)
                where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
            else
                update {schema}.cursor c set version = c.version + 1, position = begins, retries = mine.retries, read_at = now(),
                       lease_id = leases[place], lease_end = upto, due_at = now() + lease_ms * interval '1 ms'
                where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
            end if;
            wanted := wanted - 1;
            widths[place] := widths[place] - 1;
            batches[place] := room;
            if room = 0 then
                wanted := wanted - widths[place];
                widths[place] := 0;
            end if;
        end loop;
        if soonest > now() then
            soonest := least(soonest,
                (select c.due_at from {schema}.cursor c
                 where source_partition is null and c.consumer_id = own and c.due_at > now() and c.due_at < 'infinity' order by c.due_at limit 1),
                (select n.due_at from {schema}.partition p
                 cross join lateral (select c.due_at from {schema}.cursor c
                                     where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
                 where p.queue_id = source.id and md5(p.name) = md5(source_partition) and p.name = source_partition));
        end if;
    end loop;
    next_due_ms := case when soonest < 'infinity' then extract(epoch from soonest - now()) * 1000 end;
    seat := null;
    return next;
end
$$;
