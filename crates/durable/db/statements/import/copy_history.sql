/* import_copy_history */
-- Copies the events of the instances from $1 text to $2 text. Rows: how many. The JSON texts of the events are joined
-- to arrays without being parsed.
with copied as (
    insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
    select replace(numbered.instance_id, chr(1), chr(1) || '1'),
           numbered.execution_id,
           min(numbered.event_id),
           max(numbered.event_id),
           count(*),
           '[' || string_agg(numbered.event_data, ',' order by numbered.event_id) || ']'
    from (
        select event.instance_id, event.execution_id, event.event_id, event.event_data,
               (row_number() over in_order - 1) / {events_per_row} as row_by_count,
               sum(octet_length(event.event_data)) over in_order / {bytes_per_row} as row_by_size
        from {source}.history event
        where event.instance_id between $1 and $2
        window in_order as (
            partition by event.instance_id, event.execution_id order by event.event_id rows unbounded preceding
        )
    ) as numbered
    group by numbered.instance_id, numbered.execution_id, numbered.row_by_count, numbered.row_by_size
    returning event_count
)
select coalesce(sum(event_count), 0)::bigint from copied
