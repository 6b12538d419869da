/* extend */
-- See functions/extend.sql. $1 lease uuid  $2 lease_ms bigint
select partition_id, until from {schema}.extend($1::uuid, $2::bigint)
