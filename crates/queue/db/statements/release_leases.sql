/* release_leases */
-- See functions/release_leases.sql. $1 lease_ids uuid[]
select {schema}.release_leases($1::uuid[])
