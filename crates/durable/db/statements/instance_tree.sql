/* get_instance_tree */
-- An instance and all its descendants. $1 instance text
-- Index: instances_parent.
with recursive tree as (
    select $1::text as instance_id
    union
    select child.instance_id from tree join {schema}.instances child on child.parent_instance_id = tree.instance_id
)
select tree.instance_id from tree
