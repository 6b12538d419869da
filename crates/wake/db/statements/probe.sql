/* probe */
-- A notification to this process, which proves that the listener receives it. $1 channel text  $2 payload text
select pg_notify($1, $2)
