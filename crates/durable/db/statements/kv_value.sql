/* get_kv_value */
-- The value of a key. $1 instance text  $2 key text
-- Rows:  one: null if there is no such key, or it was removed.
-- Index: primary keys.
select case
           when changed.instance_id is not null then changed.value
           else (select stored.value from {schema}.kv_store stored where stored.instance_id = $1 and stored.key = $2)
       end
from (select) as one_row
left join {schema}.kv_delta changed on changed.instance_id = $1 and changed.key = $2
