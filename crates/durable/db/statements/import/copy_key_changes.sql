/* import_copy_key_changes */
-- Copies the key changes of the current executions of the instances from $1 text to $2 text. Rows: how many.
with copied as (
    insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
    select replace(source.instance_id, chr(1), chr(1) || '1'),
           replace(source.key, chr(1), chr(1) || '1'),
           replace(source.value, chr(1), chr(1) || '1'),
           source.last_updated_at_ms
    from {source}.kv_delta source
    where source.instance_id between $1 and $2
    returning 1
)
select count(*) from copied
