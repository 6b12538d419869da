/* newest_steps */
-- The due time of the newest step that can be received in a namespace ($1), in microseconds of the Unix epoch; null:
-- there is none. A step that was sent is due when it is sent again.
-- Index: step_due_in_namespace backwards, of the queues that have steps.
select (extract(epoch from max(s.due_at)) * 1000000)::bigint
from {schema}.namespace n
cross join lateral {schema}.live_namespace_queues(array[n.id::bigint << 40], array[(n.id::bigint << 40) + 65535]) l
cross join lateral (
    select s.due_at from {schema}.step s
    where s.namespace_queue_id = l.queue_id and s.due_at < 'infinity'
      and (n.provider = 'table' and s.due_at <= now() or n.provider <> 'table' and s.published is not null
          and s.state = 'ready')
    order by s.due_at desc limit 1
) s
where n.name = $1
