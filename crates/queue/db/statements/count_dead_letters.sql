/* count_dead_letters */
-- The number of dead letters of a queue. $1 queue text
-- Index: queue_name; dead_letter_queue.
select count(*) from {schema}.queue q join {schema}.dead_letter d on d.queue_id = q.id
    where md5(q.name) = md5($1::text) and q.name = $1::text
