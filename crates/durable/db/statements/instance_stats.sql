/* get_instance_stats */
-- How large an instance is. $1 instance text
-- Rows:  one, or none if there is no such instance: events and their bytes of the current execution, its first turn, keys and bytes of their values.
-- Index: primary keys.
select h.events, h.bytes, first.events as first_turn, kv.keys, kv.bytes as value_bytes
from {schema}.instances i
cross join lateral (
    select coalesce(sum(h.event_count), 0)::bigint as events, coalesce(sum(octet_length(h.events)), 0)::bigint as bytes
    from {schema}.history h where h.instance_id = i.instance_id and h.execution_id = i.current_execution_id) h
left join lateral (
    select h.events from {schema}.history h
    where h.instance_id = i.instance_id and h.execution_id = i.current_execution_id order by h.event_id limit 1) first on true
cross join lateral (
    select count(*) as keys, coalesce(sum(length(merged.value)), 0)::bigint as bytes from (
        select case when d.key is not null then d.value else s.value end as value
        from (select k.key, k.value from {schema}.kv_store k where k.instance_id = i.instance_id) s
        full join (select k.key, k.value from {schema}.kv_delta k where k.instance_id = i.instance_id) d on d.key = s.key) merged
    where merged.value is not null) kv
where i.instance_id = $1
