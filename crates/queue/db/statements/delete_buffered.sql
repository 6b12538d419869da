/* delete_buffered */
-- Deletes buffered messages that have been pushed. $1 ids bigint[]
delete from {schema}.buffered b where b.id = any ($1::bigint[])
