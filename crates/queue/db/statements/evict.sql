/* evict */
-- See functions/evict.sql. $1 partitions bigint[]  $2 consumers integer[]
select queue, consumer, messages, due from {schema}.evict($1::bigint[], $2::integer[])
