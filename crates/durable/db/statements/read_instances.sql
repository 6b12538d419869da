/* read_instances */
-- See functions/read_instances.sql. $1 instances text[]  $2 want_events boolean[]  $3 cached_executions bigint[]
-- $4 cached_generations bigint[]  $5 cached_last_events bigint[]  $6 seen_versions bigint[]
select * from {schema}.read_instances($1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
