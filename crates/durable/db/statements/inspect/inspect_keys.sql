/* inspect_keys */
-- Keys and values of an instance, by key. $1 instance text  $2 after this key text  $3 at most so many bigint
-- Rows:  a value above a megabyte is null: see `value_bytes`.
-- Index: primary keys of kv_store and kv_delta.
select entry.key,
       case when octet_length(entry.value) <= 1048576 then entry.value end as value,
       octet_length(entry.value)::bigint as value_bytes,
       entry.last_updated_at_ms
from (
    select coalesce(changed.key, stored.key) as key,
           case when changed.key is not null then changed.value else stored.value end as value,
           case when changed.key is not null then changed.last_updated_at_ms else stored.last_updated_at_ms end
               as last_updated_at_ms
    from (
        select kv.key, kv.value, kv.last_updated_at_ms from {schema}.kv_store kv where kv.instance_id = $1
    ) as stored
    full join (
        select kv.key, kv.value, kv.last_updated_at_ms from {schema}.kv_delta kv where kv.instance_id = $1
    ) as changed on changed.key = stored.key
) as entry
where entry.value is not null and entry.key > $2
order by entry.key
limit $3
