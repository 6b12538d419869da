/* append_with_execution */
-- Appends events after the last one. $1 instance text  $2 execution bigint  $3 first event bigint  $4 last event bigint
-- $5 event count int  $6 events text
-- Rows:  one; none if the history has an event with such an id or a later one.
-- Index: primary key of history, backwards.
with appended as (
    insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
    select $1, $2, $3, $4, $5, $6
    where $3 > coalesce((
        select history.last_event_id from {schema}.history
        where history.instance_id = $1 and history.execution_id = $2
        order by history.event_id desc
        limit 1
    ), 0)
    returning event_count
), counted as (
    update {schema}.executions execution set event_count = execution.event_count + appended.event_count
    from appended
    where execution.instance_id = $1 and execution.execution_id = $2 and execution.event_count is not null
)
select event_count from appended
