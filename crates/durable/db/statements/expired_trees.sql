/* expired_trees */
-- Instances without a parent that ended longer ago than $1 (milliseconds bigint), those that ended first, $2 at most;
-- and all below them.
-- Index: executions_ended forwards; then primary keys and instances_parent. Instances with a parent are passed over:
--        they go with it.
with recursive roots as materialized (
    select i.instance_id
    from {schema}.executions e
    cross join lateral (
        select i.instance_id from {schema}.instances i
        where i.instance_id = e.instance_id and i.current_execution_id = e.execution_id
          and i.parent_instance_id is null and i.status in ('Completed', 'Failed')
        offset 0
    ) i
    where e.completed_at is not null and e.status <> 'ContinuedAsNew'
      and e.completed_at <= now() - $1::bigint * interval '1 ms'
    order by e.completed_at
    limit $2
), tree as (
    select r.instance_id from roots r
    union
    select i.instance_id from tree t join {schema}.instances i on i.parent_instance_id = t.instance_id
)
select t.instance_id from tree t
