/* open_namespace */
-- Makes a namespace ($1) as its template ($2) says, unless it is there: see functions/open_namespace.sql.
select {schema}.open_namespace($1, $2)
