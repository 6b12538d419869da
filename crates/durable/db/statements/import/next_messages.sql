/* import_next_messages */
-- The next batch of instances that have messages. $1 after this one text  $2 or from it on boolean  $3 at most bigint
-- Rows:  one: the first and the last of them; nulls if there are no more.
-- Index: that of the source by instance.
select min(batch.instance_id), max(batch.instance_id)
from (
    select distinct message.instance_id from {source}.orchestrator_queue message
    where message.instance_id >= $1 and (message.instance_id > $1 or $2)
    order by message.instance_id
    limit $3
) as batch
