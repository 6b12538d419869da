/* originals */
-- The messages at these offsets, as far as they still exist. $1 partitions bigint[]  $2 offsets bigint[]
select n.position, s.ids[n.message_offset - s.first_offset + 1],
       s.transaction_ids[n.message_offset - s.first_offset + 1]
from unnest($1::bigint[], $2::bigint[]) with ordinality as n (partition_id, message_offset, position)
cross join lateral (select s.first_offset, s.next_offset, s.ids, s.transaction_ids from {schema}.segment s
                    where s.partition_id = n.partition_id and s.first_offset <= n.message_offset
                        order by s.first_offset desc limit 1) s
where n.message_offset < s.next_offset and s.ids[n.message_offset - s.first_offset + 1] is not null
