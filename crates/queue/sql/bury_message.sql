/* bury_message */
-- Makes a message a dead letter: its place stays, empty. $1 partition_id bigint  $2 segment bigint: its first offset  $3 element integer  $4 id uuid  $5 consumer text  $6 error text
-- Rows:  one, if it was there.
-- Locks: the segment, before it is read.
with found as materialized (
    select s.* from {schema}.segment s where s.partition_id = $1::bigint and s.first_offset = $2::bigint and s.ids[$3::integer] = $4::uuid for update
), erased as (
    update {schema}.segment s set ids[$3::integer] = null, payloads[$3::integer] = ''
    from found f where s.partition_id = f.partition_id and s.first_offset = f.first_offset
)
insert into {schema}.dead_letter (queue_id, partition_id, consumer, message_offset, message_id, transaction_id, trace_id, producer, encrypted, payload, error, retries, created_at)
select p.queue_id, f.partition_id, $5::text, f.first_offset + $3::integer - 1, f.ids[$3::integer], f.transaction_ids[$3::integer], f.trace_ids[$3::integer],
       f.producers[$3::integer], f.encrypted, f.payloads[$3::integer], $6::text, 0, f.created_at
from found f join {schema}.partition p on p.id = f.partition_id
returning id
