/* ack_leases */
-- See functions/ack_leases.sql.
-- $1 batch_id uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean
-- $5 partitions bigint[]  $6 lease_ids uuid[]
select number, has_more, backend
from {schema}.ack_leases($1::uuid, $2::text[], $3::text[], $4::boolean, $5::bigint[], $6::uuid[])
