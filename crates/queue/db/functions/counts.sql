-- What a queue holds, counted from offsets: a deleted message still counts until the segment with it goes.
-- total:      messages there are.
-- unfinished: those that some consumer group has not ended; where there is no group, all.
-- processing: of those, the ones that somebody has a lease on; where several groups read, of the group that has most.
-- Index: partition_name; of segment and cursor the primary key, one lookup each per partition. 10 000 partitions with three groups: 70 ms.
create or replace function {schema}.counts(queue_id integer) returns table (partitions bigint, total bigint, unfinished bigint, processing bigint)
language sql stable
as $$
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
$$;
