/* get_kv_all_values */
-- All keys and values. $1 instance text
-- Index: primary keys.
select coalesce(changed.key, stored.key), case when changed.key is not null then changed.value else stored.value end
from (select entry.key, entry.value from {schema}.kv_store entry where entry.instance_id = $1) as stored
full join (select entry.key, entry.value from {schema}.kv_delta entry where entry.instance_id = $1) as changed
    on changed.key = stored.key
where changed.key is null or changed.value is not null
