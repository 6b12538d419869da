/* claim */
-- See functions/claim.sql. $1 source_queue text  $2 source_partition text  $3 group_name text  $4 mode text  $5 since timestamptz  $6 waited_ms bigint
-- $7 leases uuid[]  $8 leases_ms bigint[]  $9 batches integer[]  $10 most integer  $11 room integer  $12 widths integer[]
-- $13 bound_us bigint
select * from {schema}.claim($1::text, $2::text, $3::text, $4::text, $5::timestamptz, $6::bigint,
                             $7::uuid[], $8::bigint[], $9::integer[], $10::integer, $11::integer,
                             $12::integer[], $13::bigint)
