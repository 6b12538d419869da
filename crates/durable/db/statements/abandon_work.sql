/* abandon_work_item */
-- See functions/abandon_work.sql. $1–$4 the batch  $5 instances text[]  $6 ids bigint[]  $7 tokens uuid[]
-- $8 repeated boolean[]  $9 delays_ms bigint[]  $10 uncounted boolean[]
select * from {schema}.abandon_work(
    $1::uuid, $2::text[], $3::text[], $4::boolean,
    $5::text[], $6::bigint[], $7::uuid[], $8::boolean[], $9::bigint[], $10::boolean[]
)
