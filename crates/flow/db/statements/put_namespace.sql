/* put_namespace */
-- Makes a namespace ($1), unless it is there, and changes what is given: see functions/put_namespace.sql.
select {schema}.put_namespace($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
