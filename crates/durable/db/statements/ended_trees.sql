/* delete_instance_bulk */
-- Instances that may be deleted: those without a parent that have ended, and all below them. $1 among which text[]; null: all
-- $2 ended before which millisecond bigint; null: any time  $3 how many at most bigint
with recursive roots as materialized (
    select i.instance_id from {schema}.instances i
    left join {schema}.executions e on e.instance_id = i.instance_id and e.execution_id = i.current_execution_id
    where i.parent_instance_id is null and i.status in ('Completed', 'Failed', 'ContinuedAsNew')
      and ($1::text[] is null or i.instance_id = any ($1))
      and ($2::bigint is null or e.completed_at < to_timestamp($2 / 1000.0))
    order by e.completed_at limit $3
), tree as (
    select r.instance_id from roots r
    union
    select i.instance_id from tree t join {schema}.instances i on i.parent_instance_id = t.instance_id)
select instance_id from tree
