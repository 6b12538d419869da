/* get_instance_stats */
-- The size of an instance. $1 instance text
-- Rows:  one, or none if there is no such instance: events of the current execution and their bytes, the events of its
--        first turn, keys and the bytes of their values.
-- Index: primary keys.
select current_events.events, current_events.bytes, first_turn.events, keys.keys, keys.bytes
from {schema}.instances instance
cross join lateral (
    select coalesce(sum(history.event_count), 0)::bigint as events,
           coalesce(sum(octet_length(history.events)), 0)::bigint as bytes
    from {schema}.history
    where history.instance_id = instance.instance_id and history.execution_id = instance.current_execution_id
) as current_events
left join lateral (
    select history.events from {schema}.history
    where history.instance_id = instance.instance_id and history.execution_id = instance.current_execution_id
    order by history.event_id
    limit 1
) as first_turn on true
cross join lateral (
    select count(*) as keys, coalesce(sum(length(merged.value)), 0)::bigint as bytes
    from (
        select case when changed.key is not null then changed.value else stored.value end as value
        from (
            select entry.key, entry.value from {schema}.kv_store entry where entry.instance_id = instance.instance_id
        ) as stored
        full join (
            select entry.key, entry.value from {schema}.kv_delta entry where entry.instance_id = instance.instance_id
        ) as changed on changed.key = stored.key
    ) as merged
    where merged.value is not null
) as keys
where instance.instance_id = $1
