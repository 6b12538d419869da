/* inspect_activities */
-- Activities of an instance that have not ended, without their payloads. $1 instance text  $2 at most so many bigint
-- Rows:  `name` is JSON text. `is_running`: a worker has it until `locked_until`.
-- Index: primary key of worker_queue.
select activity.activity_id, activity.execution_id, activity.visible_at, activity.visible_at <= now() as is_due,
       activity.locked_until, coalesce(activity.locked_until > now(), false) as is_running,
       activity.attempt_count, nullif(activity.tag_queue, '') as tag_queue, activity.session_id,
       substring(left(activity.work_item, 2000) from '"name"\s*:\s*("(?:[^"\\]|\\.)*")') as name
from {schema}.worker_queue activity
where activity.instance_id = $1
order by activity.id
limit $2
