/* pause_queue */
-- Pauses a queue for all consumer groups, or resumes it. A queue that is paused keeps the time of its first pause.
-- $1 queue text  $2 paused boolean
-- Rows:  its name; none if there is no such queue.
-- Locks: the queue.
-- Index: queue_name.
update {schema}.queue q
set paused_at = case when $2::boolean then coalesce(q.paused_at, now()) end
where md5(q.name) = md5($1::text) and q.name = $1::text
returning q.name
