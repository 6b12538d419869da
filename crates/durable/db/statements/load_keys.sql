/* load_keys */
-- The keys that ended executions have left. $1 instances text[]
-- Rows:  position of the instance from zero, key, value, time.
-- Index: primary key.
select (requested.position - 1)::int, stored.key, stored.value, stored.last_updated_at_ms
from unnest($1::text[]) with ordinality as requested (instance_id, position)
cross join lateral (
    select * from {schema}.kv_store stored
    where stored.instance_id = requested.instance_id
    offset 0
) as stored
