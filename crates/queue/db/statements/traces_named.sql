/* traces_named */
-- The traces with a name, in order.
-- $1 name text  $2 from timestamptz  $3 before timestamptz; null: any
-- $4 limit bigint  $5 offset bigint  $6 bytes bigint: of the page, at least one trace
-- Index: trace_name_name.
select t.*
from (select t.*, row_number() over (order by t.id) as nth,
             sum(octet_length(t.data) + octet_length(t.transaction_id) + octet_length(t.event_type)
                 + coalesce(octet_length(t.worker), 0)
                 + pg_column_size(t.names) + octet_length(t.queue) + octet_length(t.partition) + 400)
                     over (order by t.id) as upto_bytes
    from (select t.*, q.name as queue, p.name as partition, count(*) over () as found
          from {schema}.trace_name n
          join {schema}.trace t on t.id = n.trace_id
          join {schema}.partition p on p.id = t.partition_id
          join {schema}.queue q on q.id = p.queue_id
          where md5(n.name) = md5($1::text) and n.name = $1::text
            and ($2::timestamptz is null or t.created_at >= $2::timestamptz)
                and ($3::timestamptz is null or t.created_at < $3::timestamptz)
          order by t.id limit $4::bigint offset $5::bigint) t) t
where t.nth = 1 or t.upto_bytes <= $6::bigint
order by t.id
