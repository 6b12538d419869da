-- How many messages of a queue wait for a consumer group; where there is none, how many there are. Reads every partition of the queue: only for those with a `maxSize`.
create or replace function {schema}.backlog(queue_id integer) returns bigint
language sql stable
as $$
    select coalesce(sum(greatest(l.next_offset - greatest(c.position, p.first_offset), 0)), 0)::bigint
    from {schema}.partition p
    cross join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l
    left join lateral (
        select min(n.position) as position from {schema}.consumer k
        cross join lateral (select c.position from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = k.id
                            order by c.version desc limit 1) n
        where k.queue_id = p.queue_id) c on true
    where p.queue_id = backlog.queue_id
$$;
