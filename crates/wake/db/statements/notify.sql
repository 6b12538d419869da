/* notify */
-- Rings on behalf of commits that have happened. $1 channels text[]  $2 payloads text[]
select {schema}.notify($1, $2)
