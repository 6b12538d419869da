/* announce_sent */
-- Tells listeners outside of messages that were sent for a namespace ($1) to a queue of PGMQ ($2), which was made for them ($3), the newest by its number ($4): on the channels $5 and $6.
-- Nobody is told while the queue of notifications is nearly full.
select case when $3 then pg_notify($5, json_build_object('queue_name', $2::text, 'namespace', $1::text, 'created_at', now())::text) end,
       pg_notify($6, json_build_object('msg_id', $4::bigint, 'queue', $2::text, 'enqueued_at', now())::text)
where pg_notification_queue_usage() < 0.9
