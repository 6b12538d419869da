/* announce */
-- Tells listeners outside: each payload ($2) goes to the channel ($1) beside it. A queue that is nearly full is left to
-- what matters.
select pg_notify(n.channel, n.payload) from unnest($1::text[], $2::text[]) as n (channel, payload)
    where pg_notification_queue_usage() < 0.9
