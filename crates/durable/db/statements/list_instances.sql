/* list_instances */
-- All instances, the newest first. $1 status text; null: any
select instance.instance_id from {schema}.instances instance
where $1::text is null or instance.status = $1
order by instance.created_at desc, instance.instance_id
