/* put_namespace */
-- Creates a namespace ($1) if it does not exist, and changes the given settings: see functions/put_namespace.sql.
select {schema}.put_namespace($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
