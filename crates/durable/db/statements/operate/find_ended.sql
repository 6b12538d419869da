/* find_ended */
-- Ended instances without a parent whose descendants have all ended, the first that ended first.
-- $1 ended before timestamptz  $2 status text; null: any  $3 name text; null: any
-- $4, $5 after this end and id timestamptz, text  $6 at most so many bigint  $7 scan at most so many bigint
-- Rows:  those that match, and the last one scanned if the scan ended there; `matches` tells which.
-- Index: executions_ended forwards; then primary keys and instances_parent. Instances with a parent are skipped: they
--        are deleted with their parent.
select found.instance_id, found.orchestration_name, found.status, found.completed_at, found.matches,
       found.position = $7 as ends_scan
from (
    select scanned.instance_id, scanned.completed_at, scanned.position,
           instance.orchestration_name, instance.status,
           instance.instance_id is not null
               and ($2::text is null or instance.status = $2)
               and ($3::text is null or instance.orchestration_name = $3)
               and not exists (
                   with recursive tree as (
                       select child.instance_id, child.status from {schema}.instances child
                       where child.parent_instance_id = instance.instance_id
                       union
                       select child.instance_id, child.status
                       from tree
                       join {schema}.instances child on child.parent_instance_id = tree.instance_id
                   )
                   select from tree where tree.status not in ('Completed', 'Failed')
               ) as matches
    from (
        select execution.instance_id, execution.execution_id, execution.completed_at,
               row_number() over (order by execution.completed_at, execution.instance_id) as position
        from {schema}.executions execution
        where execution.completed_at is not null
          and execution.status <> 'ContinuedAsNew'
          and execution.completed_at < $1
          and execution.completed_at >= $4
          and (execution.completed_at, execution.instance_id) > ($4, $5)
        order by execution.completed_at, execution.instance_id
        limit $7
    ) as scanned
    left join lateral (
        select instance.instance_id, instance.orchestration_name, instance.status from {schema}.instances instance
        where instance.instance_id = scanned.instance_id
          and instance.current_execution_id = scanned.execution_id
          and instance.parent_instance_id is null
          and instance.status in ('Completed', 'Failed')
        offset 0
    ) as instance on true
) as found
where found.matches or found.position = $7
order by found.position
limit $6
