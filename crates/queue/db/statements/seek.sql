/* seek */
-- See functions/seek.sql. $1 partitions bigint[]  $2 group_name text  $3 target text  $4 since timestamptz
select partition_id, consumer, due from {schema}.seek($1::bigint[], $2::text, $3::text, $4::timestamptz)
