/* ack_orchestration_item, ack_work_item, enqueue_for_orchestrator */
-- All three together: see functions/commit.sql. $1–$4 the flight, then its arrays in order.
select * from {schema}.commit($1::uuid, $2::text[], $3::text[], $4::boolean, $5::text[], $6::uuid[], $7::boolean[], $8::bigint[],
    $9::bigint[], $10::bigint[], $11::int[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[], $17::text[], $18::text[],
    $19::boolean[], $20::text[], $21::int[], $22::text[], $23::bigint[], $24::bigint[], $25::text[], $26::text[], $27::text[], $28::int[],
    $29::text[], $30::bigint[], $31::bigint[], $32::int[], $33::text[], $34::bigint[], $35::text[], $36::int[], $37::int[], $38::text[],
    $39::text[], $40::bigint[], $41::text[], $42::bigint[], $43::uuid[], $44::boolean[], $45::text[], $46::text[], $47::text[],
    $48::bigint[], $49::text[])
