/* prune_executions */
-- See functions/prune_executions.sql. $1 instances text[]  $2 keep_last bigint  $3 before_ms bigint
select * from {schema}.prune_executions($1::text[], $2::bigint, $3::bigint)
