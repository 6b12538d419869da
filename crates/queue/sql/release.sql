/* release */
-- See functions/release.sql. $1 leases uuid[]  $2 partitions bigint[]  $3 consumers integer[]  $4 versions bigint[]  $5 positions bigint[]
select {schema}.release($1::uuid[], $2::bigint[], $3::integer[], $4::bigint[], $5::bigint[])
