/* load_keys */
-- The keys that ended executions have left. $1 instances text[]
-- Rows:  place from zero, key, value, time.
-- Index: primary key.
select (i.place - 1)::int, s.key, s.value, s.last_updated_at_ms
from unnest($1::text[]) with ordinality as i (instance_id, place)
cross join lateral (select * from {schema}.kv_store s where s.instance_id = i.instance_id offset 0) s
