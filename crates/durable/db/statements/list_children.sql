/* list_children */
-- The children of an instance. $1 instance text
-- Index: instances_parent.
select child.instance_id from {schema}.instances child
where child.parent_instance_id = $1
order by child.created_at, child.instance_id
