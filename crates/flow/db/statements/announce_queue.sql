/* announce_queue */
-- Tells listeners outside that a queue of PGMQ ($2) was made for a namespace ($1), if that announces: on the channel
-- $3.
-- Sends nothing while the queue of notifications is nearly full.
-- Index: the name of the namespace.
select pg_notify(
    $3, json_build_object('queue_name', $2::text, 'namespace', left(n.name, 1000), 'created_at', now())::text)
from {schema}.namespace n
where n.name = $1 and n.announces and pg_notification_queue_usage() < 0.9
