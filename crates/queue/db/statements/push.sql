/* push */
-- See functions/push.sql. No rows: pushes are in maintenance.
-- $1 batch_id uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean
-- $5 partitions bigint[]  $6 cached_until bigint[]  $7 revisions integer[]  $8 last_segments integer[]
-- $9 segment_ends integer[]
-- $10 ids uuid[]  $11 transaction_ids text[]  $12 hashes bigint[]  $13 bodies bytea[]  $14 trace_ids text[]
-- $15 producers text[]  $16 ignore_max_size boolean: the messages were buffered during maintenance
select *
from {schema}.push(
    $1::uuid, $2::text[], $3::text[], $4::boolean,
    $5::bigint[], $6::bigint[], $7::integer[], $8::integer[],
    $9::integer[],
    $10::uuid[], $11::text[], $12::bigint[], $13::bytea[], $14::text[],
    $15::text[], $16::boolean)
where $16::boolean or not (select m.enabled from {schema}.maintenance m where m.name = 'push')
