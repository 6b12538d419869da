/* look_up */
-- See functions/look_up.sql. $1 instances text[]  $2 whether events are wanted boolean[]  $3 remembered execution bigint[]  $4 generation bigint[]
-- $5 last event bigint[]  $6 version of the custom status seen bigint[]; null: not wanted
select * from {schema}.look_up($1::text[], $2::boolean[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[])
