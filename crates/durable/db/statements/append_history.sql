/* append_with_execution */
-- Appends events after the last. $1 instance text  $2 execution bigint  $3 first event bigint  $4 last event bigint  $5 how many int  $6 events text
-- Rows:  one; none if there is an event with such an id or a later one.
-- Index: primary key of history, backwards.
with appended as (
    insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
    select $1, $2, $3, $4, $5, $6
    where $3 > coalesce((select h.last_event_id from {schema}.history h where h.instance_id = $1 and h.execution_id = $2
                         order by h.event_id desc limit 1), 0)
    returning event_count
), counted as (
    update {schema}.executions e set event_count = e.event_count + a.event_count
    from appended a where e.instance_id = $1 and e.execution_id = $2 and e.event_count is not null
)
select event_count from appended
