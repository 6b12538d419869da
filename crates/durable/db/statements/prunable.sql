/* prune_executions_bulk */
-- Instances whose old executions may be pruned. $1 among which text[]; null: all  $2 whose current execution ended before which millisecond
-- bigint; null: any  $3 how many at most bigint
select i.instance_id from {schema}.instances i
left join {schema}.executions e on e.instance_id = i.instance_id and e.execution_id = i.current_execution_id
where ($1::text[] is null or i.instance_id = any ($1)) and ($2::bigint is null or e.completed_at < to_timestamp($2 / 1000.0))
order by i.created_at limit $3
