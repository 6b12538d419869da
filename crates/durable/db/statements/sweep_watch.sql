/* sweep_instances_watched */
-- Which instances have anything to tell. $1 instances text[]  Rows: their places, from zero.
-- Index: primary key, one probe each.
select (k.place - 1)::int from unnest($1::text[]) with ordinality as k (instance_id, place)
join {schema}.instances i on i.instance_id = k.instance_id
where i.status in ('Completed', 'Failed') or i.custom_status_version > 0
