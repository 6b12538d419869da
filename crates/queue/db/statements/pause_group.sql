/* pause_group */
-- Pauses a consumer group of a queue, or resumes it. A group that is paused keeps the time of its first pause.
-- $1 queue text  $2 group text  $3 paused boolean
-- Rows:  its name; none if the queue has no such group.
-- Locks: the group.
-- Index: queue_name; consumer_name.
update {schema}.consumer k
set paused_at = case when $3::boolean then coalesce(k.paused_at, now()) end
from {schema}.queue q
where md5(q.name) = md5($1::text) and q.name = $1::text
  and k.queue_id = q.id and md5(k.name) = md5($2::text) and k.name = $2::text
returning k.name
