/* get_kv_all_values */
-- All keys and values. $1 instance text
-- Index: primary keys.
select coalesce(d.key, s.key), case when d.key is not null then d.value else s.value end
from (select k.key, k.value from {schema}.kv_store k where k.instance_id = $1) s
full join (select k.key, k.value from {schema}.kv_delta k where k.instance_id = $1) d on d.key = s.key
where d.key is null or d.value is not null
