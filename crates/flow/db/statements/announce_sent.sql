/* announce_sent */
-- Notifies outside listeners, on a channel ($3), of messages that were sent to a PGMQ queue ($1); $2 is the id of the
-- newest. While the notification queue is nearly full, nothing is sent.
select pg_notify($3, json_build_object('msg_id', $2::bigint, 'queue', $1::text, 'enqueued_at', now())::text)
where pg_notification_queue_usage() < 0.9
