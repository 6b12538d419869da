/* fetch_work_item */
-- See functions/claim_work.sql. $1 tag_queues text[]  $2 lease_ms bigint  $3 lock_tokens uuid[]  $4 owners text[]
-- $5 session_ms bigint[]  $6 bound_us bigint
select * from {schema}.claim_work(
    $1::text[], $2::bigint, $3::uuid[], $4::text[], $5::bigint[], $6::bigint, in_write => false)
