/* prune_executions_bulk */
-- Instances whose old executions may be pruned. $1 only these text[]; null: all  $2 whose current execution ended
-- before this millisecond bigint; null: any  $3 at most bigint
select instance.instance_id
from {schema}.instances instance
left join {schema}.executions execution
    on execution.instance_id = instance.instance_id and execution.execution_id = instance.current_execution_id
where ($1::text[] is null or instance.instance_id = any ($1))
  and ($2::bigint is null or execution.completed_at < to_timestamp($2 / 1000.0))
order by instance.created_at
limit $3
