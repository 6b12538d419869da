/* open_queues */
-- Creates the queues of a template ($1) for a priority ($2): see functions/open_queues.sql.
select {schema}.open_queues($1, $2)
