/* next_expiry */
-- In how many milliseconds the next instance will have ended longer than $1 (milliseconds bigint) ago. If none has
-- ended yet: as if one ended now.
-- Index: executions_ended forwards, up to the first instance without a parent; then primary keys.
select greatest(0, extract(epoch from coalesce((
    select execution.completed_at
    from {schema}.executions execution
    cross join lateral (
        select from {schema}.instances instance
        where instance.instance_id = execution.instance_id
          and instance.current_execution_id = execution.execution_id
          and instance.parent_instance_id is null
          and instance.status in ('Completed', 'Failed')
        offset 0
    ) as instance
    where execution.completed_at is not null and execution.status <> 'ContinuedAsNew'
    order by execution.completed_at
    limit 1
), now()) + $1::bigint * interval '1 ms' - now()) * 1000)::float8
