/* watch_instance */
-- Whether an instance has ended, and the version of its custom status. $1 instance text
-- Rows:  one; none if there is no such instance.
-- Index: primary key.
select i.status in ('Completed', 'Failed'), i.custom_status_version from {schema}.instances i where i.instance_id = $1
