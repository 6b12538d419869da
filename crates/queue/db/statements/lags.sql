/* lags */
-- The lag of consumer groups, one row per group and queue.
-- $1 group text, null: all  $2 queue text, null: all
-- Messages behind a cursor are counted from offsets; their age is that of the segment at the cursor.
-- Index: primary keys of cursor and segment, one lookup each per cursor, and one more per cursor with messages to read.
--        10 000 partitions with three groups that all lag: 0.2 s, one group: 60 ms.
select k.name, q.name as queue, k.mode, k.since, k.created_at, k.paused_at, count(p.id) as partitions,
       count(o.created_at) as lagging,
       coalesce(sum(h.head - a.position), 0)::bigint as lag,
       coalesce(max(extract(epoch from now() - o.created_at)), 0)::float8 as lag_seconds,
       count(*) filter (where c.lease_id is not null and c.due_at > now()) as leases, max(c.read_at) as read_at
from {schema}.queue q
join {schema}.partition p on p.queue_id = q.id
left join lateral (select s.next_offset from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
cross join lateral (select coalesce(l.next_offset, p.first_offset) as head) h
join {schema}.cursor c on c.partition_id = p.id
join {schema}.consumer k on k.id = c.consumer_id
cross join lateral (select least(greatest(c.position, p.first_offset), h.head) as position) a
left join lateral (select s.created_at from {schema}.segment s
    where s.partition_id = p.id and s.first_offset <= a.position
                   order by s.first_offset desc limit 1) o on a.position < h.head
where ($1::text is null or md5(k.name) = md5($1::text) and k.name = $1::text)
    and ($2::text is null or md5(q.name) = md5($2::text) and q.name = $2::text)
group by k.id, q.id
order by k.name, q.name
