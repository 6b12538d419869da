/* size_of_executions */
-- What `prune_executions` would delete. $1 instances text[]  $2 keep_last bigint  $3 before_ms bigint
-- Rows:  one.
-- Index: primary key of executions.
select count(distinct ranked.instance_id)::bigint as instances,
       count(*)::bigint as executions,
       coalesce(sum(ranked.event_count), 0)::bigint as events
from (
    select execution.instance_id, execution.execution_id, execution.status, execution.completed_at,
           execution.event_count, instance.current_execution_id,
           row_number() over (partition by execution.instance_id order by execution.execution_id desc) as recency
    from {schema}.executions execution
    join {schema}.instances instance on instance.instance_id = execution.instance_id
    where execution.instance_id = any ($1::text[])
) as ranked
where ranked.execution_id <> ranked.current_execution_id
  and ranked.status <> 'Running'
  and ($2::bigint is null or ranked.recency > $2)
  and ($3::bigint is null or ranked.completed_at < to_timestamp($3 / 1000.0))
