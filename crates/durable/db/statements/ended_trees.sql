/* delete_instance_bulk */
-- Instances that may be deleted: ended instances without a parent, and all their descendants.
-- $1 only these text[]; null: all  $2 ended before this millisecond bigint; null: any time
-- $3 at most so many without a parent bigint
with recursive roots as materialized (
    select instance.instance_id
    from {schema}.instances instance
    left join {schema}.executions execution
        on execution.instance_id = instance.instance_id and execution.execution_id = instance.current_execution_id
    where instance.parent_instance_id is null
      and instance.status in ('Completed', 'Failed', 'ContinuedAsNew')
      and ($1::text[] is null or instance.instance_id = any ($1))
      and ($2::bigint is null or execution.completed_at < to_timestamp($2 / 1000.0))
    order by execution.completed_at
    limit $3
), tree as (
    select roots.instance_id from roots
    union
    select child.instance_id from tree join {schema}.instances child on child.parent_instance_id = tree.instance_id
)
select tree.instance_id from tree
