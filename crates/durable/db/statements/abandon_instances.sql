/* abandon_orchestration_item */
-- See functions/abandon_instances.sql. $1–$4 the batch  $5 instances text[]  $6 tokens uuid[]  $7 repeated boolean[]
-- $8 delays_ms bigint[]  $9 uncounted boolean[]
select * from {schema}.abandon_instances(
    $1::uuid, $2::text[], $3::text[], $4::boolean,
    $5::text[], $6::uuid[], $7::boolean[], $8::bigint[], $9::boolean[]
)
