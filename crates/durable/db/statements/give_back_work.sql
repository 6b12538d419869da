/* give_back_work_item */
-- Releases leases that no waiter accepted, as if they had not been claimed. $1 instances text[]  $2 ids bigint[]
-- $3 tokens uuid[]
select {schema}.abandon_work(
    batch_id => null,
    channels => array[]::text[],
    payloads => array[]::text[],
    patient => true,
    instances => $1::text[],
    ids => $2::bigint[],
    tokens => $3::uuid[],
    repeated => array_fill(false, array[cardinality($1)]),
    delays_ms => array_fill(null::bigint, array[cardinality($1)]),
    uncounted => array_fill(true, array[cardinality($1)])
)
