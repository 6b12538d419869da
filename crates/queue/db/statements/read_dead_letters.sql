/* read_dead_letters */
-- Dead letters by their ids, oldest first. $1 ids bigint[]
-- Index: the primary key.
select d.*, q.name as queue, p.name as partition
from {schema}.dead_letter d
join {schema}.queue q on q.id = d.queue_id
join {schema}.partition p on p.id = d.partition_id
where d.id = any ($1::bigint[])
order by d.id
