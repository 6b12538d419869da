/* running_children */
-- Children of an instance that have not ended, the oldest first. $1 instance text  $2 at most so many bigint
-- Index: instances_parent.
select child.instance_id, child.orchestration_name
from {schema}.instances child
where child.parent_instance_id = $1 and child.status not in ('Completed', 'Failed')
order by child.created_at, child.instance_id
limit $2
