/* give_back_orchestration_item */
-- Ends leases nobody took, as if they had not been. $1 instances text[]  $2 tokens uuid[]
select {schema}.abandon_instances(null, array[]::text[], array[]::text[], true, $1::text[], $2::uuid[],
                                  array_fill(false, array[cardinality($1)]),
                                  array_fill(null::bigint, array[cardinality($1)]), array_fill(true, array[cardinality($1)]))
