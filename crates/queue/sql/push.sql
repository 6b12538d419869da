/* push */
-- See functions/push.sql; no rows: pushes are under maintenance. $1 flight uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean  $5 partitions bigint[]
-- $6 known bigint[]  $7 revisions integer[]  $8 lasts integer[]  $9 ids uuid[]  $10 transaction_ids text[]  $11 hashes bigint[]  $12 bodies bytea[]  $13 trace_ids text[]
-- $14 producers text[]  $15 drains boolean: what came while they were
select * from {schema}.push($1::uuid, $2::text[], $3::text[], $4::boolean, $5::bigint[], $6::bigint[], $7::integer[],
                            $8::integer[], $9::uuid[], $10::text[], $11::bigint[], $12::bytea[], $13::text[], $14::text[], $15::boolean)
where $15::boolean or not (select m.enabled from {schema}.maintenance m where m.name = 'push')
