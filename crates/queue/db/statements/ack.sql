/* ack */
-- See functions/ack.sql.
-- $1 batch_id uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean
-- $5 partitions bigint[]  $6 group_names text[]  $7 lease_ids uuid[]  $8 last_messages integer[]
-- $9 hashes bigint[]  $10 statuses text[]  $11 errors text[]
select status, has_more, consumer, messages, backend
from {schema}.ack(
    $1::uuid, $2::text[], $3::text[], $4::boolean,
    $5::bigint[], $6::text[], $7::uuid[], $8::integer[],
    $9::bigint[], $10::text[], $11::text[])
