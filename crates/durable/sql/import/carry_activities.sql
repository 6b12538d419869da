/* import_carry_activities */
-- Activities from number $1 text to $2 text, in their order. Rows: how many. What is left of leases that have ended is left behind.
with carried as (
    insert into {schema}.worker_queue
        (visible_at, execution_id, activity_id, attempt_count, lane, instance_id, session_id, work_item)
    select q.visible_at, q.execution_id, q.activity_id, q.attempt_count, coalesce('#' || replace(q.tag, chr(1), chr(1) || '1'), ''),
           replace(q.instance_id, chr(1), chr(1) || '1'), replace(q.session_id, chr(1), chr(1) || '1'), q.work_item
    from {source}.worker_queue q where q.id between $1::text::bigint and $2::text::bigint
    order by q.id
    returning 1
)
select count(*) from carried
