/* size_of_trees */
-- What deleting instances with their descendants would delete. $1 instances text[]  $2 at most so many of them bigint
-- Rows:  one.
-- Index: primary keys, instances_parent; the events of executions that have not ended are counted.
with recursive tree as (
    select given.instance_id from unnest($1::text[]) as given (instance_id)
    union
    select child.instance_id from tree join {schema}.instances child on child.parent_instance_id = tree.instance_id
), few as materialized (
    select tree.instance_id from tree limit $2
)
select (select count(*) from few)::bigint as named,
       (
           select count(*) from few join {schema}.instances instance on instance.instance_id = few.instance_id
       )::bigint as instances,
       (
           select count(*) from few join {schema}.instances instance on instance.instance_id = few.instance_id
           where instance.status = 'Running'
       )::bigint as running,
       execution.executions,
       execution.events,
       (
           select count(*) from few join {schema}.orchestrator_queue message on message.instance_id = few.instance_id
       ) + (
           select count(*) from few join {schema}.worker_queue activity on activity.instance_id = few.instance_id
       ) as messages
from (
    select count(*) as executions,
           coalesce(sum(coalesce(execution.event_count, (
               select sum(history.event_count) from {schema}.history
               where history.instance_id = execution.instance_id and history.execution_id = execution.execution_id
           ))), 0)::bigint as events
    from few
    join {schema}.executions execution on execution.instance_id = few.instance_id
) as execution
