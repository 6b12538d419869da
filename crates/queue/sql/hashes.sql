/* hashes */
-- The hashes of what partitions hold from an offset on, in order; and where the partitions begin. $1 partitions bigint[]  $2 froms bigint[]: where segments begin
-- Index: primary key of segment, forwards; of each row only what is stored in line is read.
select p.id, p.first_offset, h.first_offset, h.hashes
from unnest($1::bigint[], $2::bigint[]) as n (id, begin)
join {schema}.partition p on p.id = n.id
left join lateral (select s.first_offset, s.hashes from {schema}.segment s where s.partition_id = p.id and s.first_offset >= n.begin) h on true
order by p.id, h.first_offset
