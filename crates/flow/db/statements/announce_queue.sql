/* announce_queue */
-- Notifies outside listeners, on a channel ($3), that a PGMQ queue ($2) was created for a namespace ($1), if the
-- namespace has announcements. While the notification queue is nearly full, nothing is sent.
-- Index: the name of the namespace.
select pg_notify(
    $3, json_build_object('queue_name', $2::text, 'namespace', left(n.name, 1000), 'created_at', now())::text)
from {schema}.namespace n
where n.name = $1 and n.announces and pg_notification_queue_usage() < 0.9
