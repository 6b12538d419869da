/* import_next_messages */
-- The next instances that have messages. $1 after which text  $2 or from it on boolean  $3 how many bigint
-- Rows:  one: the first and the last of them; nulls if there are no more.
-- Index: the source's, by instance.
select min(b.instance_id), max(b.instance_id)
from (select distinct q.instance_id from {source}.orchestrator_queue q
      where q.instance_id >= $1 and (q.instance_id > $1 or $2) order by q.instance_id limit $3) b
