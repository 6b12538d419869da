/* known_instance */
-- Whether an instance exists, or has been started and has not run yet. $1 instance text
-- Rows:  one, or none. Of one that has not run: status null, and the name as JSON text.
-- Index: primary keys.
select instance.status, instance.orchestration_name, instance.orchestration_version, instance.parent_instance_id
from {schema}.instances instance
where instance.instance_id = $1
union all
(
    select null, substring(left(message.work_item, 2000) from '"orchestration"\s*:\s*("(?:[^"\\]|\\.)*")'), null, null
    from {schema}.orchestrator_queue message
    where message.instance_id = $1
      and message.kind = 'start'
      and not exists (select from {schema}.instances instance where instance.instance_id = $1)
    order by message.visible_at, message.id
    limit 1
)
