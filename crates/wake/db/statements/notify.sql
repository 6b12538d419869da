/* notify */
-- Notifies of writes that have committed. $1 channels text[]  $2 payloads text[]
select {schema}.notify($1, $2)
