/* ack */
-- See functions/ack.sql. $1 flight uuid  $2 channels text[]  $3 payloads text[]  $4 patient boolean  $5 partitions bigint[]  $6 groups text[]  $7 leases uuid[]
-- $8 lasts integer[]  $9 hashes bigint[]  $10 statuses text[]  $11 errors text[]
select * from {schema}.ack($1::uuid, $2::text[], $3::text[], $4::boolean, $5::bigint[], $6::text[], $7::uuid[],
                           $8::integer[], $9::bigint[], $10::text[], $11::text[])
