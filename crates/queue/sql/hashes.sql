/* hashes */
-- The hashes of all that partitions hold, in order, from the first offset on. $1 partitions bigint[]
-- Index: primary key of segment, forwards; of each row only what is stored in line is read.
select p.id, p.first_offset, coalesce(h.first_offset, p.first_offset), h.hashes
from unnest($1::bigint[]) as n (id)
join {schema}.partition p on p.id = n.id
left join lateral (select s.first_offset, s.hashes from {schema}.segment s where s.partition_id = p.id) h on true
order by p.id, h.first_offset
