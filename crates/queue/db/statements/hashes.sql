/* hashes */
-- The hashes of partitions from an offset on, in order, and the offsets at which the partitions begin.
-- $1 partitions bigint[]  $2 froms bigint[]: first offsets of segments
-- $3 window bigint: of each partition about so many of the newest messages at most
-- Index: primary key of segment, backwards for the end and then forwards; only columns that are stored inline are read.
select p.id, p.first_offset, h.first_offset, h.hashes
from unnest($1::bigint[], $2::bigint[]) as n (id, begin)
join {schema}.partition p on p.id = n.id
left join lateral (select s.next_offset from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
left join lateral (select s.first_offset, s.hashes from {schema}.segment s
                   where s.partition_id = p.id and s.first_offset >= greatest(n.begin, l.next_offset - $3::bigint)) h
                       on true
order by p.id, h.first_offset
