-- Message counts of a queue, computed from offsets: a deleted message counts until its segment is removed.
-- total:      all messages.
-- unfinished: messages that some consumer group has not acked; in a queue without groups, all.
-- processing: of those, messages under a lease; with several groups, of the group that has most.
-- Index: partition_name; of segment and cursor the primary key, one lookup each per partition. 10 000 partitions with
--        three groups: 70 ms.
create or replace function {schema}.message_counts(queue_id integer)
returns table (partitions bigint, total bigint, unfinished bigint, processing bigint)
language sql stable
as $$
    select count(*),
           coalesce(sum(head.next_offset - p.first_offset), 0)::bigint,
           coalesce(sum(head.next_offset - slowest.position), 0)::bigint,
           coalesce(sum(least(slowest.leased, head.next_offset - slowest.position)), 0)::bigint
    from {schema}.partition p
    left join lateral (
        select s.next_offset
        from {schema}.segment s
        where s.partition_id = p.id
        order by s.first_offset desc
        limit 1
    ) newest on true
    cross join lateral (select coalesce(newest.next_offset, p.first_offset) as next_offset) head
    cross join lateral (
        select coalesce(least(greatest(min(c.position), p.first_offset), head.next_offset), p.first_offset) as position,
               coalesce(
                   max(c.lease_end - greatest(c.position, p.first_offset))
                       filter (where c.lease_id is not null and c.due_at > now()),
                   0) as leased
        from {schema}.cursor c
        where c.partition_id = p.id
    ) slowest
    where p.queue_id = message_counts.queue_id
$$;
