/* figures */
-- See functions/figures.sql. $1 top bigint  $2 counted bigint
select * from {schema}.figures($1::bigint, $2::bigint)
