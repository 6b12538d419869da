-- Appends messages to partitions, in one segment each or, if they are many, in several, and tells the consumer groups that had read everything.
-- partitions: in order of their ids, each once; `lasts`: the place of each one's last segment in `cuts`.
-- cuts:       the place of each segment's last message in `ids` and the arrays after it.
-- known:      up to before which offset the caller knows the hashes of a partition, and has found none of these.
-- revisions:  of the queues as the caller knows them, and has sealed the payloads for; if that is not how the queue is now, the partition is `gone`.
-- drains:     they came while pushes were under maintenance, and were accepted then: no queue is too full for them.
-- Rows:  one per partition. `ok`: appended from first_offset on. `gone`: there is no such partition any more, or the caller knows more than it has: of an append that was never committed.
--        `full`: the queue has its `maxSize`. `locked`: somebody has it for longer than a moment. `stale`: what others have appended has one of these hashes; that comes before `full`,
--        because what is there needs no room. `unseen`: the hashes from `known` up to what is appended here, and from where they are left. `begins`: what lies before it was removed.
-- Locks: the partitions, for a moment skip locked, so that a caller's long transaction holds up only who wants the same partition; `patient` waits. Then cursors
--        that nobody else changes, because whoever makes one infinite has the partition.
-- Index: primary keys; a segment's is read backwards from its end.
create or replace function {schema}.push(
    flight uuid, channels text[], payloads text[], patient boolean,
    partitions bigint[], known bigint[], revisions integer[], lasts integer[], cuts integer[],
    ids uuid[], transaction_ids text[], hashes bigint[], bodies bytea[], trace_ids text[], producers text[], drains boolean
) returns table (place integer, verdict text, first_offset bigint, unseen bigint[], unseen_from bigint, begins bigint, backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
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
    perform {schema}.finish_batch(flight, array[]::text[], channels, payloads);
end
$$;
