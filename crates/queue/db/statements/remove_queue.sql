/* remove_queue */
-- See functions/remove_queue.sql. $1 queue text
select {schema}.remove_queue($1::text)
