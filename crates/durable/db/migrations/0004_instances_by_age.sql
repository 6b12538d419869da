-- For lists of instances, newest first. Neither column changes, so an update of an instance stays a HOT update.
create index instances_created on {schema}.instances (created_at, instance_id);
