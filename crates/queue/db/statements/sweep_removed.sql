/* sweep_removed */
-- See functions/sweep_removed.sql. $1 budget integer
select {schema}.sweep_removed($1::integer)
