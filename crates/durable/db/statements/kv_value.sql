/* get_kv_value */
-- A key's value. $1 instance text  $2 key text
-- Rows:  one: null if there is no such key, or it was removed.
-- Index: primary keys.
select case when d.instance_id is not null then d.value
            else (select s.value from {schema}.kv_store s where s.instance_id = $1 and s.key = $2) end
from (select) one left join {schema}.kv_delta d on d.instance_id = $1 and d.key = $2
