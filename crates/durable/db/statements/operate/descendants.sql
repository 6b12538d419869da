/* descendants */
-- Instances and all their descendants. $1 instances text[]
-- Index: instances_parent.
with recursive tree as (
    select given.instance_id from unnest($1::text[]) as given (instance_id)
    union
    select child.instance_id from tree join {schema}.instances child on child.parent_instance_id = tree.instance_id
)
select tree.instance_id from tree
