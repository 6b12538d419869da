/* find_consumers */
-- The queues that a consumer group reads: the id of the group there, the id and name of the queue.
-- $1 group text  $2 queue text, null: all
-- Index: consumer_by_name.
select k.id, q.id, q.name
from {schema}.consumer k join {schema}.queue q on q.id = k.queue_id
where md5(k.name) = md5($1::text) and k.name = $1::text and ($2::text is null or q.name = $2::text)
order by q.id
