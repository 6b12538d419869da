/* sweep_instances_watched */
-- Which instances have ended or have a custom status. $1 instances text[]  Rows: their positions, from zero.
-- Index: primary key, one lookup each.
select (watched.position - 1)::int
from unnest($1::text[]) with ordinality as watched (instance_id, position)
join {schema}.instances instance on instance.instance_id = watched.instance_id
where instance.status in ('Completed', 'Failed') or instance.custom_status_version > 0
