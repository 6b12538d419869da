/* enqueue_for_orchestrator */
-- See functions/enqueue.sql. $1–$4 the flight  $5 instances text[]  $6 delays_ms bigint[]  $7 items text[]
select * from {schema}.enqueue($1::uuid, $2::text[], $3::text[], $4::boolean, $5::text[], $6::bigint[], $7::text[])
