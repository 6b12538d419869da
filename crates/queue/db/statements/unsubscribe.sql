/* unsubscribe */
-- See functions/unsubscribe.sql. $1 consumer_id integer
select {schema}.unsubscribe($1::integer)
