/* ack_orchestration_item */
-- See functions/ack_instances.sql. $1–$4 the flight, then its arrays in order.
select * from {schema}.ack_instances($1::uuid, $2::text[], $3::text[], $4::boolean, $5::text[], $6::uuid[], $7::bigint[], $8::bigint[],
    $9::bigint[], $10::int[], $11::text[], $12::text[], $13::text[], $14::text[], $15::bigint[], $16::text[], $17::text[], $18::boolean[],
    $19::text[], $20::int[], $21::text[], $22::bigint[], $23::bigint[], $24::text[], $25::text[], $26::text[], $27::int[], $28::text[],
    $29::bigint[], $30::bigint[], $31::int[], $32::text[], $33::bigint[], $34::text[], $35::int[], $36::int[], $37::text[], $38::text[],
    $39::bigint[])
