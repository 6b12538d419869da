/* claim */
-- See functions/claim.sql.
-- $1 source_queue text  $2 source_partition text  $3 group_name text
-- $4 start_mode text  $5 start_at timestamptz  $6 waited_ms bigint
-- $7 lease_ids uuid[]  $8 lease_times_ms bigint[]  $9 max_messages integer[]  $10 max_partitions integer[]
-- $11 max_bytes integer  $12 bound_us bigint
select *
from {schema}.claim(
    $1::text, $2::text, $3::text,
    $4::text, $5::timestamptz, $6::bigint,
    $7::uuid[], $8::bigint[], $9::integer[], $10::integer[],
    $11::integer, $12::bigint, in_write => false)
