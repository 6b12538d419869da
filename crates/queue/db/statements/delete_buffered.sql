/* delete_buffered */
-- Deletes messages that no longer wait. $1 ids bigint[]
delete from {schema}.buffered b where b.id = any ($1::bigint[])
