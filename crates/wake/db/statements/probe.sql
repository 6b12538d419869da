/* probe */
-- A notification to ourselves, to see whether the listener hears it. $1 channel text  $2 payload text
select pg_notify($1, $2)
