/* find_queue */
-- A queue by its name. $1 name text
-- Index: queue_name.
select q.* from {schema}.queue q where md5(q.name) = md5($1::text) and q.name = $1::text
