/* load_template */
-- A template ($1) as it was registered.
select t.id, t.document from {schema}.template t where t.id = $1
