/* import_carry_keys */
-- Keys and values of the instances from $1 text to $2 text, as earlier executions left them. Rows: how many.
with carried as (
    insert into {schema}.kv_store (instance_id, key, value, last_updated_at_ms)
    select replace(k.instance_id, chr(1), chr(1) || '1'), replace(k.key, chr(1), chr(1) || '1'),
           replace(k.value, chr(1), chr(1) || '1'), k.last_updated_at_ms
    from {source}.kv_store k where k.instance_id between $1 and $2
    returning 1
)
select count(*) from carried
