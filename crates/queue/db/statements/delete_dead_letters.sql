/* delete_dead_letters */
-- Deletes these dead letters. $1 ids bigint[]
delete from {schema}.dead_letter d where d.id = any ($1::bigint[])
