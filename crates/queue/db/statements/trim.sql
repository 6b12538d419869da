/* trim */
-- See functions/trim.sql. $1 partitions bigint[]  $2 end_offsets bigint[]  $3 max_segments integer  $4 patient boolean
select partition_id, messages, more from {schema}.trim($1::bigint[], $2::bigint[], $3::integer, $4::boolean)
