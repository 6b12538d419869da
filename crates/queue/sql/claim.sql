/* claim */
-- See functions/claim.sql. $1 source_queue text  $2 source_partition text  $3 source_namespace text  $4 source_task text  $5 group_name text  $6 modes text[]
-- $7 sinces timestamptz[]  $8 leases uuid[]  $9 leases_ms bigint[]  $10 batches integer[]  $11 widths integer[]  $12 autos boolean[]
select * from {schema}.claim($1::text, $2::text, $3::text, $4::text, $5::text, $6::text[], $7::timestamptz[],
                             $8::uuid[], $9::bigint[], $10::integer[], $11::integer[], $12::boolean[])
