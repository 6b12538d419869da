/* ring */
-- Rings on behalf of commits that have happened. $1 channels text[]  $2 payloads text[]
select {schema}.ring($1, $2)
