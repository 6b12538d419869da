/* overdue */
-- Cursors without a lease whose next message has waited for longer than `maxWaitTimeSeconds` of its queue.
-- $1 partition bigint  $2 consumer integer: the last cursor of the page before  $3 limit bigint
-- Index: of segment and cursor the primary key, for the partitions of queues with a `maxWaitTimeSeconds`.
select p.id, c.consumer_id
from {schema}.queue q
join {schema}.partition p on p.queue_id = q.id
join {schema}.cursor c on c.partition_id = p.id
cross join lateral (select s.created_at, s.next_offset from {schema}.segment s
    where s.partition_id = p.id and s.first_offset <= greatest(c.position, p.first_offset)
                    order by s.first_offset desc limit 1) o
where q.max_wait_time_seconds > 0 and (p.id, c.consumer_id) > ($1::bigint, $2::integer)
  and o.next_offset > greatest(c.position, p.first_offset)
      and o.created_at < now() - q.max_wait_time_seconds * interval '1 s'
  and (c.lease_id is null or c.due_at <= now())
order by p.id, c.consumer_id limit $3::bigint
