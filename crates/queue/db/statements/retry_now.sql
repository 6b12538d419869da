/* retry_now */
-- Ends the retry delay of a message, and resets its retries. $1 partition_id bigint  $2 message_offset bigint
-- Rows:  the groups that waited.
-- Index: primary key of cursor.
update {schema}.cursor c set version = c.version + 1, retries = 0, due_at = now()
from {schema}.consumer k
where k.id = c.consumer_id and c.partition_id = $1::bigint and c.position = $2::bigint and c.lease_id is null
    and c.retries > 0 and c.due_at < 'infinity'
returning k.name
