/* depth */
-- The lag of a consumer group in the partitions of a queue with messages to read; of a group that does not exist, all
-- messages.
-- $1 queue_id integer  $2 group text
-- Rows:  the name of the partition and the number of messages, in order of partitions.
-- Index: partition_name; primary keys of segment and cursor.
select p.name, h.head - a.position
from {schema}.partition p
cross join lateral (select s.next_offset as head from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) h
left join {schema}.consumer k on k.queue_id = p.queue_id and md5(k.name) = md5($2::text) and k.name = $2::text
left join {schema}.cursor c on c.partition_id = p.id and c.consumer_id = k.id
cross join lateral (select greatest(c.position, p.first_offset) as position) a
where p.queue_id = $1::integer and a.position < h.head
order by p.id
