/* expired_trees */
-- Instances without a parent that ended longer than $1 (milliseconds bigint) ago, the first that ended first, at most
-- $2 (bigint); and all their descendants.
-- Index: executions_ended forwards; then primary keys and instances_parent. Instances with a parent are skipped: they
--        are deleted with their parent.
with recursive roots as materialized (
    select instance.instance_id
    from {schema}.executions execution
    cross join lateral (
        select instance.instance_id from {schema}.instances instance
        where instance.instance_id = execution.instance_id
          and instance.current_execution_id = execution.execution_id
          and instance.parent_instance_id is null
          and instance.status in ('Completed', 'Failed')
        offset 0
    ) as instance
    where execution.completed_at is not null
      and execution.status <> 'ContinuedAsNew'
      and execution.completed_at <= now() - $1::bigint * interval '1 ms'
    order by execution.completed_at
    limit $2
), tree as (
    select roots.instance_id from roots
    union
    select child.instance_id from tree join {schema}.instances child on child.parent_instance_id = tree.instance_id
)
select tree.instance_id from tree
