/* fetch_orchestration_item */
-- See functions/claim_instances.sql. $1 lock_tokens uuid[]  $2 lease_ms bigint  $3 min_version bigint
-- $4 max_version bigint  $5 bound_us bigint
select * from {schema}.claim_instances($1::uuid[], $2::bigint, $3::bigint, $4::bigint, $5::bigint, in_write => false)
