/* fork_task */
-- Creates a task ($1 id) of a template ($2) that continues another one ($3) from a step: see functions/fork_task.sql.
-- $4 definition  $5 part  $6 definitions before it  $7 definitions after it  $8 input of the part  $9 context
-- $10 operator  $11 reason of the task  $12 reason of the steps that are kept  $13 limit in ms  $14 the most steps
-- $15 channels  $16 payloads
-- Rows: one.
with original as (
    select t.priority, k.source_system, k.tags, k.correlation_id, k.parent_correlation_id, k.context
    from {schema}.task t
    join {schema}.task_detail k on k.task_id = t.id
    where t.id = $3
)
select f.outcome, f.ready
from (select) as always
left join original o on true
cross join lateral {schema}.fork_task(
    row($1::uuid, $2::integer, coalesce(o.priority, 0)::smallint, null, $13::bigint,
        coalesce($9::text, o.context, 'null'), $10::text, o.source_system, $11::text, o.correlation_id,
        o.parent_correlation_id, null, coalesce(o.tags, '{}'))::{schema}.new_task,
    $3, $4, $5, $6, $7, $8, $10, $12, $14, $15, $16) f
