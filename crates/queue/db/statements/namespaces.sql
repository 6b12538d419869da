/* namespaces */
-- The namespaces of queues, in order of their names, with the number of their messages.
-- Index: see functions/message_counts.sql, for every queue.
select q.namespace as name, count(*) as queues, sum(c.partitions)::bigint as partitions, sum(c.total)::bigint as total,
       sum(c.unfinished)::bigint as unfinished, sum(c.processing)::bigint as processing
from {schema}.queue q
cross join lateral {schema}.message_counts(q.id) c
where q.namespace <> ''
group by q.namespace
order by q.namespace
