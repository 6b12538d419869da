/* overview */
-- Numbers of queues, namespaces, tasks, partitions, groups, leases, messages and dead letters.
-- Index: see functions/message_counts.sql, for every queue.
select count(*) as queues, count(distinct q.namespace) filter (where q.namespace <> '') as namespaces,
    count(distinct q.task) filter (where q.task <> '') as tasks,
       coalesce(sum(c.partitions), 0)::bigint as partitions, coalesce(sum(c.total), 0)::bigint as total,
       coalesce(sum(c.unfinished), 0)::bigint as unfinished, coalesce(sum(c.processing), 0)::bigint as processing,
       (select count(distinct k.name) from {schema}.consumer k) as groups,
           (select count(*) from {schema}.dead_letter) as dead_letters,
       (select count(*) from {schema}.cursor l where l.lease_id is not null and l.due_at > now()) as leases
from {schema}.queue q
cross join lateral {schema}.message_counts(q.id) c
