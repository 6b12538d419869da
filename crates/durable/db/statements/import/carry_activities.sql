/* import_carry_activities */
-- Activities, in their order. $1 numbers bigint[]  $2 instances text[]  $3 executions bigint[]  $4 activities bigint[]  $5 lanes text[]
-- $6 sessions text[]
-- Rows:  how many. What is left of leases that have ended is left behind.
with carried as (
    insert into {schema}.worker_queue
        (visible_at, execution_id, activity_id, attempt_count, lane, instance_id, session_id, work_item)
    select q.visible_at, m.execution_id, m.activity_id, q.attempt_count, m.lane, m.instance_id, m.session_id, q.work_item
    from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
         as m (id, instance_id, execution_id, activity_id, lane, session_id)
    join {source}.worker_queue q on q.id = m.id
    order by q.id
    returning 1
)
select count(*) from carried
