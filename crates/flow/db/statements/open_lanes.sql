/* open_lanes */
-- Makes the lanes of a template ($1) for a priority ($2): see functions/open_lanes.sql.
select {schema}.open_lanes($1, $2)
