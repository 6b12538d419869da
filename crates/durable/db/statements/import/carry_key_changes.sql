/* import_carry_key_changes */
-- What the current executions of the instances from $1 text to $2 text have changed in their keys. Rows: how many.
with carried as (
    insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
    select replace(k.instance_id, chr(1), chr(1) || '1'), replace(k.key, chr(1), chr(1) || '1'),
           replace(k.value, chr(1), chr(1) || '1'), k.last_updated_at_ms
    from {source}.kv_delta k where k.instance_id between $1 and $2
    returning 1
)
select count(*) from carried
