/* find_message */
-- A message of a partition by its transaction id.
-- $1 partition_id bigint  $2 hash bigint: of the transaction id  $3 transaction_id text
-- $4 message_offset bigint: its expected offset; null: search the whole partition
-- Index: primary key of segment; without an offset all segments of the partition are read.
select m.id, m.transaction_id, s.trace_ids[m.element] as trace_id, s.producers[m.element] as producer,
       s.first_offset + m.element - 1 as message_offset, s.created_at,
       s.first_offset as segment, m.element, s.encrypted, s.payloads[m.element] as payload,
       p.id as partition_id, p.name as partition, q.name as queue, q.namespace, q.task, q.priority
from {schema}.segment s
join {schema}.partition p on p.id = s.partition_id
join {schema}.queue q on q.id = p.queue_id
cross join lateral unnest(s.hashes, s.ids, s.transaction_ids) with ordinality as m (hash, id, transaction_id, element)
where s.partition_id = $1::bigint and s.hashes @> array[$2::bigint] and m.hash = $2::bigint
  and m.transaction_id = $3::text and m.id is not null
  and ($4::bigint is null
       or s.first_offset <= $4::bigint and s.next_offset > $4::bigint
          and s.first_offset >= (
              select max(f.first_offset)
              from {schema}.segment f
              where f.partition_id = $1::bigint and f.first_offset <= $4::bigint))
order by s.first_offset
limit 1
