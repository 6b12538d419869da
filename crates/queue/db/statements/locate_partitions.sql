/* locate_partitions */
-- Partitions by their numbers. $1 ids bigint[]
select p.id, q.name, p.name, q.namespace, q.task, q.encryption_enabled as encrypted, q.revision
from unnest($1::bigint[]) as n (id)
join {schema}.partition p on p.id = n.id
join {schema}.queue q on q.id = p.queue_id
