/* next_expiry */
-- In how many milliseconds the next instance may have ended longer ago than $1 (milliseconds bigint). Where none has
-- ended yet, none is due before one that would end now.
-- Index: executions_ended forwards, up to the first instance without a parent; then primary keys.
select greatest(extract(epoch from coalesce((
    select e.completed_at
    from {schema}.executions e
    cross join lateral (
        select from {schema}.instances i
        where i.instance_id = e.instance_id and i.current_execution_id = e.execution_id
          and i.parent_instance_id is null and i.status in ('Completed', 'Failed')
        offset 0
    ) i
    where e.completed_at is not null and e.status <> 'ContinuedAsNew'
    order by e.completed_at
    limit 1), now()) + $1::bigint * interval '1 ms' - now()) * 1000, 0)::float8
