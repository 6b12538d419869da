-- Adds activities to execute. Outcomes: `ok` for each.
create or replace function {schema}.enqueue_work(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], executions bigint[], activities bigint[], lanes text[], sessions text[], items text[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own
as $$
begin
    insert into {schema}.worker_queue (visible_at, execution_id, activity_id, lane, instance_id, session_id, work_item)
    select now() + m.place * interval '1 us', m.execution, m.activity, m.lane, m.instance, m.session, m.item
    from unnest(instances, executions, activities, lanes, sessions, items) with ordinality
         as m (instance, execution, activity, lane, session, item, place)
    order by m.place;
    outcomes := array_fill('ok'::text, array[cardinality(instances)]);
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
