/* delete_removed */
-- See functions/delete_removed.sql. $1 max_rows integer
select {schema}.delete_removed($1::integer)
