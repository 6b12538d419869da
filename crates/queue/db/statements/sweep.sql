/* sweep */
-- The positions of the sources that have something due for their group, or have no such group yet;
-- not those that are paused.
-- $1 queues text[]  $2 partitions text[]  $3 namespaces text[]  $4 tasks text[]  $5 groups text[]
-- Index: names; then cursor_due, the first entry of each.
select n.position::integer
from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[]) with ordinality
    as n (queue, partition, namespace, task, group_name, position)
where exists (
    select from {schema}.queue q
    left join {schema}.consumer k on k.queue_id = q.id and md5(k.name) = md5(n.group_name) and k.name = n.group_name
    where (n.queue is not null and md5(q.name) = md5(n.queue) and q.name = n.queue
           or n.queue is null and (n.namespace is null or md5(q.namespace) = md5(n.namespace)
               and q.namespace = n.namespace)
              and (n.task is null or md5(q.task) = md5(n.task) and q.task = n.task))
      and q.paused_at is null and k.paused_at is null
      and (k.id is null
           or n.partition is null and exists (select from {schema}.cursor c
               where c.consumer_id = k.id and c.due_at <= now() and c.due_at < 'infinity')
           or n.partition is not null and exists (
                select from {schema}.partition p cross join lateral (
                    select c.due_at from {schema}.cursor c
                        where c.partition_id = p.id and c.consumer_id = k.id order by c.version desc limit 1) c
                where p.queue_id = q.id and md5(p.name) = md5(n.partition) and p.name = n.partition
                    and c.due_at <= now())))
