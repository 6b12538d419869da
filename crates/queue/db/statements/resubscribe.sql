/* resubscribe */
-- Changes where a consumer group began, in all its queues; no cursor moves. $1 group text  $2 since timestamptz
-- Index: consumer_by_name.
update {schema}.consumer k set mode = 'timestamp', since = $2::timestamptz
where md5(k.name) = md5($1::text) and k.name = $1::text
returning k.id
