/* extend_lease */
-- See functions/extend_lease.sql. $1 lease uuid  $2 lease_ms bigint
select partition_id, expires_at from {schema}.extend_lease($1::uuid, $2::bigint)
