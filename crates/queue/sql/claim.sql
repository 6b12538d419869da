/* claim */
-- See functions/claim.sql. $1 source_queue text  $2 source_partition text  $3 group_name text  $4 modes text[]  $5 sinces timestamptz[]  $6 leases uuid[]
-- $7 leases_ms bigint[]  $8 batches integer[]  $9 widths integer[]  $10 floor_us bigint
select * from {schema}.claim($1::text, $2::text, $3::text, $4::text[], $5::timestamptz[],
                             $6::uuid[], $7::bigint[], $8::integer[], $9::integer[], $10::bigint)
