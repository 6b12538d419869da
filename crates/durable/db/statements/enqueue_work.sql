/* enqueue_for_worker */
-- See functions/enqueue_work.sql. $1–$4 the batch  $5 instances text[]  $6 executions bigint[]
-- $7 activities bigint[]  $8 tag_queues text[]  $9 sessions text[]  $10 work_items text[]
select * from {schema}.enqueue_work(
    $1::uuid, $2::text[], $3::text[], $4::boolean,
    $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[], $10::text[]
)
