-- The queues of these partitions that have reached their `maxSize`, counted as messages that some consumer group has
-- not acked; in a queue without groups, as all messages.
-- Cost:  reads every partition of a queue with a limit, and so is called once per push. Queues without a limit cost
--        nothing.
create or replace function {schema}.full_queues(partitions bigint[]) returns integer[]
language sql stable
as $$
    select array_agg(q.id)
    from {schema}.queue q
    where q.id = any (array(select distinct p.queue_id from {schema}.partition p where p.id = any (partitions)))
      and q.max_size > 0
      and q.max_size <= (
          select coalesce(sum(greatest(newest.next_offset - greatest(slowest.position, p.first_offset), 0)), 0)::bigint
          from {schema}.partition p
          cross join lateral (
              select s.next_offset
              from {schema}.segment s
              where s.partition_id = p.id
              order by s.first_offset desc
              limit 1
          ) newest
          left join lateral (
              select min(current.position) as position
              from {schema}.consumer k
              cross join lateral (
                  select c.position
                  from {schema}.cursor c
                  where c.partition_id = p.id and c.consumer_id = k.id
                  order by c.version desc
                  limit 1
              ) current
              where k.queue_id = p.queue_id
          ) slowest on true
          where p.queue_id = q.id)
$$;
