/* make_dead_letter */
-- Makes a message a dead letter; its element of the arrays stays, empty.
-- $1 partition_id bigint  $2 message_offset bigint  $3 id uuid  $4 consumer text  $5 error text
-- Rows:  one, if the message exists.
-- Locks: the segment, before it is read.
-- Index: primary key of segment, backwards from the offset.
with found as materialized (
    select s.*, ($2::bigint - s.first_offset + 1)::integer as element
    from {schema}.segment s
    where s.partition_id = $1::bigint and s.first_offset <= $2::bigint
    order by s.first_offset desc limit 1
    for update
), message as materialized (
    select f.* from found f where f.ids[f.element] = $3::uuid
), erased as (
    update {schema}.segment s set ids[m.element] = null, payloads[m.element] = ''
    from message m
    where s.partition_id = m.partition_id and s.first_offset = m.first_offset
)
insert into {schema}.dead_letter (
    queue_id, partition_id, consumer, message_offset, message_id, transaction_id, trace_id,
    producer, encrypted, payload, error, retries, created_at)
select p.queue_id, m.partition_id, $4::text, $2::bigint, $3::uuid, m.transaction_ids[m.element], m.trace_ids[m.element],
       m.producers[m.element], m.encrypted, m.payloads[m.element], $5::text, 0, m.created_at
from message m
join {schema}.partition p on p.id = m.partition_id
returning id
