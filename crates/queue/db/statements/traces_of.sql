/* traces_of */
-- The traces of a message, in order.
-- $1 partition_id bigint  $2 transaction_id text  $3 limit bigint  $4 offset bigint
-- $5 bytes bigint: of the page, at least one trace
-- Index: trace_message.
select t.*
from (select t.*, row_number() over (order by t.id) as nth,
             sum(octet_length(t.data) + octet_length(t.transaction_id) + octet_length(t.event_type)
                 + coalesce(octet_length(t.worker), 0)
                 + pg_column_size(t.names) + octet_length(t.queue) + octet_length(t.partition) + 400)
                     over (order by t.id) as upto_bytes
    from (select t.*, q.name as queue, p.name as partition, count(*) over () as found
          from {schema}.trace t
          join {schema}.partition p on p.id = t.partition_id
          join {schema}.queue q on q.id = p.queue_id
          where t.partition_id = $1::bigint and md5(t.transaction_id) = md5($2::text) and t.transaction_id = $2::text
          order by t.id limit $3::bigint offset $4::bigint) t) t
where t.nth = 1 or t.upto_bytes <= $5::bigint
order by t.id
