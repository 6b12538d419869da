/* open_partitions */
-- See functions/open_partitions.sql. $1 queues text[]  $2 partitions text[]  $3 namespaces text[]  $4 tasks text[]
select number, partition_id, namespace, task, encrypted, revision, is_new
from {schema}.open_partitions($1::text[], $2::text[], $3::text[], $4::text[])
