/* take_buffered */
-- The first buffered messages, in order. $1 limit bigint  $2 bytes bigint: of their payloads, about
-- Index: primary key.
select b.id, b.queue, b.partition, b.message_id, b.transaction_id, b.trace_id, b.producer, b.payload, b.encrypted
from (select b.*, sum(octet_length(b.payload)) over (order by b.id) - octet_length(b.payload) as before
      from (select b.* from {schema}.buffered b order by b.id limit $1::bigint) b) b
where b.before < $2::bigint
order by b.id
