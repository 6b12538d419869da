/* get_queue_depths */
-- How much waits: messages that no turn has, and activities that no worker has. Reads both queues.
select (select count(*) from {schema}.orchestrator_queue)
       - (select coalesce(sum(cardinality(l.message_ids)), 0) from {schema}.instance_locks l where l.locked_until > now())::bigint as messages,
       (select count(*) from {schema}.worker_queue q where q.locked_until is null or q.locked_until <= now()) as activities
