/* inspect_messages */
-- Messages that wait for an instance, the first due first, without their payloads. $1 instance text
-- $2 at most so many bigint
-- Rows:  `due_at` is null for a message that waits for the start of the instance. `name` is JSON text: the event, the
--        queue or the orchestration.
-- Index: primary key of orchestrator_queue.
select message.id, nullif(message.visible_at, 'infinity') as due_at,
       message.visible_at <= now() as is_due,
       message.attempt_count,
       substring(left(message.work_item, 60) from '^\s*{\s*"(\w+)"') as kind,
       coalesce(
           substring(left(message.work_item, 2000) from '"orchestration"\s*:\s*("(?:[^"\\]|\\.)*")'),
           substring(left(message.work_item, 2000) from '"name"\s*:\s*("(?:[^"\\]|\\.)*")')
       ) as name
from {schema}.orchestrator_queue message
where message.instance_id = $1
order by message.visible_at, message.id
limit $2
