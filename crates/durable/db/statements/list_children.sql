/* list_children */
-- The children of an instance. $1 instance text
-- Index: instances_parent.
select i.instance_id from {schema}.instances i where i.parent_instance_id = $1 order by i.created_at, i.instance_id
