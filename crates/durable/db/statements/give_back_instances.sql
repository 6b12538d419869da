/* give_back_orchestration_item */
-- Releases leases that no waiter accepted, as if they had not been claimed. $1 instances text[]  $2 tokens uuid[]
select {schema}.abandon_instances(
    batch_id => null,
    channels => array[]::text[],
    payloads => array[]::text[],
    patient => true,
    instances => $1::text[],
    tokens => $2::uuid[],
    repeated => array_fill(false, array[cardinality($1)]),
    delays_ms => array_fill(null::bigint, array[cardinality($1)]),
    uncounted => array_fill(true, array[cardinality($1)])
)
