/* register_template */
-- Keeps a template: see functions/register_template.sql.
select id, namespace_id, same, new
from {schema}.register_template($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
