/* announce_sent */
-- Tells listeners outside of messages that were sent to a queue of PGMQ ($1), the newest by its number ($2): on the
-- channel $3.
-- Nobody is told while the queue of notifications is nearly full.
select pg_notify($3, json_build_object('msg_id', $2::bigint, 'queue', $1::text, 'enqueued_at', now())::text)
where pg_notification_queue_usage() < 0.9
