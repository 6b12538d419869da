/* fetch_work_item */
-- See functions/claim_work.sql. $1 tag_queues text[]  $2 lease_ms bigint  $3 owners text[]  $4 session_ms bigint[]
-- $5 bound_us bigint
select * from {schema}.claim_work($1::text[], $2::bigint, $3::text[], $4::bigint[], $5::bigint, in_write => false)
