-- Postpones due cursors that have nothing to read, each until it has. The caller has locked them.
-- Answer: when the first of them has something to read; now, if a push is under way there.
create or replace function {schema}.postpone(
    own_consumer_id integer, partitions bigint[], delayed_seconds integer, window_seconds integer
) returns timestamptz
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    reader   record;
    due      timestamptz;
    earliest timestamptz := 'infinity';
begin
    for reader in
        select newest.*
        from unnest(partitions) as p (id)
        cross join lateral (
            select c.*
            from {schema}.cursor c
            where c.partition_id = p.id and c.consumer_id = own_consumer_id
            order by c.version desc
            limit 1
        ) newest
    loop
        due := {schema}.due_after(reader.partition_id, reader.position, delayed_seconds, window_seconds);
        if due > now() or reader.lease_id is not null then
            update {schema}.cursor c
            set version = c.version + 1,
                due_at = due,
                lease_id = null,
                lease_end = null
            where c.partition_id = reader.partition_id
              and c.consumer_id = own_consumer_id
              and c.version = reader.version;
        end if;
        earliest := least(earliest, due);
    end loop;
    return earliest;
end
$$;
