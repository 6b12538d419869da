/* get_queue_depths */
-- The sizes of the queues: messages that no turn has leased, and activities that no worker has leased. Reads both.
select (select count(*) from {schema}.orchestrator_queue)
           - (
               select coalesce(sum(cardinality(lease.message_ids)), 0) from {schema}.instance_locks lease
               where lease.locked_until > now()
           )::bigint as messages,
       (
           select count(*) from {schema}.worker_queue activity
           where activity.locked_until is null or activity.locked_until <= now()
       ) as activities
