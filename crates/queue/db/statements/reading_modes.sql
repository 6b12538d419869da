/* reading_modes */
-- How queues are read: whether without a consumer group, and by how many groups.
-- $1 queue text  $2 namespace text  $3 task text; null: any
select coalesce(bool_or(k.name = '__QUEUE_MODE__'), false), count(distinct k.name)
    filter (where k.name <> '__QUEUE_MODE__')
from {schema}.queue q join {schema}.consumer k on k.queue_id = q.id
where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
  and ($2::text is null or md5(q.namespace) = md5($2::text) and q.namespace = $2::text)
  and ($3::text is null or md5(q.task) = md5($3::text) and q.task = $3::text)
