/* finish */
-- See functions/finish.sql. $1 flight uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean  $5 partitions bigint[]  $6 leases uuid[]
select {schema}.finish($1::uuid, $2::text[], $3::text[], $4::boolean, $5::bigint[], $6::uuid[]), pg_backend_pid()
