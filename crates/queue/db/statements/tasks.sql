/* tasks */
-- The tasks of queues, in order of their names, with the number of their messages.
-- Index: see functions/message_counts.sql, for every queue.
select q.task as name, count(*) as queues, sum(c.partitions)::bigint as partitions, sum(c.total)::bigint as total,
       sum(c.unfinished)::bigint as unfinished, sum(c.processing)::bigint as processing
from {schema}.queue q
cross join lateral {schema}.message_counts(q.id) c
where q.task <> ''
group by q.task
order by q.task
