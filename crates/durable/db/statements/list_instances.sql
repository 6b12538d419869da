/* list_instances */
-- All instances, the newest first. $1 status text; null: any
select i.instance_id from {schema}.instances i where $1::text is null or i.status = $1 order by i.created_at desc, i.instance_id
