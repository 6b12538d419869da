/* import_copy_activities */
-- Copies activities, in their order. $1 ids bigint[]  $2 instances text[]  $3 executions bigint[]
-- $4 activities bigint[]  $5 tag_queues text[]  $6 sessions text[]
-- Rows:  how many. Expired leases are not copied.
with copied as (
    insert into {schema}.worker_queue (
        visible_at, execution_id, activity_id, attempt_count, tag_queue, instance_id, session_id, work_item
    )
    select source.visible_at, parsed.execution_id, parsed.activity_id, source.attempt_count, parsed.tag_queue,
           parsed.instance_id, parsed.session_id, source.work_item
    from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
         as parsed (id, instance_id, execution_id, activity_id, tag_queue, session_id)
    join {source}.worker_queue source on source.id = parsed.id
    order by source.id
    returning 1
)
select count(*) from copied
