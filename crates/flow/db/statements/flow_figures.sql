/* flow_figures */
-- See functions/flow_figures.sql. $1 top bigint  $2 counted bigint
select * from {schema}.flow_figures($1::bigint, $2::bigint)
