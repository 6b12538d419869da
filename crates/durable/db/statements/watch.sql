/* watch_instance */
-- Whether an instance has ended, and the version of its custom status. $1 instance text
-- Rows:  one; none if there is no such instance.
-- Index: primary key.
select instance.status in ('Completed', 'Failed'), instance.custom_status_version
from {schema}.instances instance
where instance.instance_id = $1
