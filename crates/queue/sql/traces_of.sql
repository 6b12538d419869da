/* traces_of */
-- What was noted about a message, in order. $1 partition_id bigint  $2 transaction_id text  $3 limit bigint  $4 offset bigint
-- Index: trace_message.
select t.*, q.name as queue, p.name as partition, count(*) over () as found
from {schema}.trace t
join {schema}.partition p on p.id = t.partition_id
join {schema}.queue q on q.id = p.queue_id
where t.partition_id = $1::bigint and md5(t.transaction_id) = md5($2::text) and t.transaction_id = $2::text
order by t.id limit $3::bigint offset $4::bigint
