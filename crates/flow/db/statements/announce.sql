/* announce */
-- Notifies outside listeners: channels ($1) and their payloads ($2). While the notification queue is nearly full,
--                             nothing
-- is sent.
select pg_notify(n.channel, n.payload) from unnest($1::text[], $2::text[]) as n (channel, payload)
    where pg_notification_queue_usage() < 0.9
