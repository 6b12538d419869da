/* release */
-- See functions/release.sql. $1 leases uuid[]
select {schema}.release($1::uuid[])
