/* delete_instances_atomic */
-- See functions/delete_instances.sql. $1 instances text[]  $2 force boolean
select * from {schema}.delete_instances($1::text[], $2::boolean)
