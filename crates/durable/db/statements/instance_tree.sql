/* get_instance_tree */
-- An instance and all below it. $1 instance text
-- Index: instances_parent.
with recursive tree as (
    select $1::text as instance_id
    union
    select i.instance_id from tree t join {schema}.instances i on i.parent_instance_id = t.instance_id)
select instance_id from tree
