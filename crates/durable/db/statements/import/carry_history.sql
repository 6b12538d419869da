/* import_carry_history */
-- Events of the instances from $1 text to $2 text. Rows: how many. Their JSON is put side by side as it is, never read.
with carried as (
    insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
    select replace(h.instance_id, chr(1), chr(1) || '1'), h.execution_id, min(h.event_id), max(h.event_id), count(*),
           '[' || string_agg(h.event_data, ',' order by h.event_id) || ']'
    from (select o.instance_id, o.execution_id, o.event_id, o.event_data,
                 (row_number() over in_order - 1) / {events_per_row} as by_count,
                 sum(octet_length(o.event_data)) over in_order / {bytes_per_row} as by_size
          from {source}.history o where o.instance_id between $1 and $2
          window in_order as (partition by o.instance_id, o.execution_id order by o.event_id rows unbounded preceding)) h
    group by h.instance_id, h.execution_id, h.by_count, h.by_size
    returning event_count
)
select coalesce(sum(event_count), 0)::bigint from carried
