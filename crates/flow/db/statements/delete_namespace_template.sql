/* delete_namespace_template */
-- Deletes a namespace template ($1). Namespaces that began with it stay as they are.
-- Rows:  one if there was such a template.
-- Index: primary key.
delete from {schema}.namespace_template t where t.name = $1 returning t.name
