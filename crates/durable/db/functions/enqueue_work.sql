-- Adds activities to execute. Outcomes: `ok` for each.
create or replace function {schema}.enqueue_work(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    instances text[], executions bigint[], activities bigint[], tag_queues text[], sessions text[], work_items text[]
) returns table (outcomes text[], backend integer)
language plpgsql
set search_path = reveille_own
as $$
begin
    -- A microsecond apart, so that the order by due time is the order given.
    insert into {schema}.worker_queue (
        visible_at, execution_id, activity_id, tag_queue, instance_id, session_id, work_item
    )
    select now() + activity.position * interval '1 us', activity.execution_id, activity.activity_id,
           activity.tag_queue, activity.instance_id, activity.session_id, activity.work_item
    from unnest(instances, executions, activities, tag_queues, sessions, work_items) with ordinality
         as activity (instance_id, execution_id, activity_id, tag_queue, session_id, work_item, position)
    order by activity.position;

    outcomes := array_fill('ok'::text, array[cardinality(instances)]);
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
