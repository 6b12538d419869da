/* inspect_tree */
-- An instance and its descendants, level by level. $1 instance text  $2 at most so many bigint  $3 levels below bigint
-- Index: primary key, then instances_parent for each.
with recursive tree as (
    select instance.instance_id, 0::bigint as depth
    from {schema}.instances instance
    where instance.instance_id = $1
    union all
    select child.instance_id, tree.depth + 1
    from tree
    join {schema}.instances child on child.parent_instance_id = tree.instance_id
    where tree.depth < $3
), few as materialized (
    select tree.instance_id, tree.depth from tree limit $2
)
select instance.instance_id, instance.parent_instance_id, instance.orchestration_name, instance.orchestration_version,
       instance.status, instance.created_at, instance.updated_at, instance.current_execution_id, few.depth
from few
join {schema}.instances instance on instance.instance_id = few.instance_id
order by few.depth, instance.created_at, instance.instance_id
