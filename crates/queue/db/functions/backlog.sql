-- Those queues of these partitions that have their `maxSize`: so many messages wait for a consumer group; where there is none, so many there are.
-- Reads every partition of such a queue, and so once for all that are pushed to. Those without a `maxSize` it passes over.
create or replace function {schema}.backlog(partitions bigint[]) returns integer[]
language sql stable
as $$
    select array_agg(q.id) from {schema}.queue q
    where q.id = any (array(select distinct p.queue_id from {schema}.partition p where p.id = any (partitions))) and q.max_size > 0 and q.max_size <= (
        select coalesce(sum(greatest(l.next_offset - greatest(c.position, p.first_offset), 0)), 0)::bigint
        from {schema}.partition p
        cross join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l
        left join lateral (
            select min(n.position) as position from {schema}.consumer k
            cross join lateral (select c.position from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = k.id
                                order by c.version desc limit 1) n
            where k.queue_id = p.queue_id) c on true
        where p.queue_id = q.id)
$$;
