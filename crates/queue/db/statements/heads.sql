/* heads */
-- The first and the next offset of the partitions of a queue.
-- $1 queue_id integer  $2 partition text, null: all
-- Rows:  id, first offset, next offset.
-- Index: partition_name; primary key of segment, backwards.
select p.id, p.first_offset, coalesce(s.next_offset, p.first_offset)
from {schema}.partition p
left join lateral (select s.next_offset from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) s on true
where p.queue_id = $1::integer and ($2::text is null or md5(p.name) = md5($2::text) and p.name = $2::text)
order by p.id
