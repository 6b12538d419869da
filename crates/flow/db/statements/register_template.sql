/* register_template */
-- Registers a template: see functions/register_template.sql.
select id, namespace_id, same, new from {schema}.register_template($1, $2, $3, $4, $5::text::json, $6::text::json)
