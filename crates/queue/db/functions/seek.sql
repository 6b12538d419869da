-- Moves cursors of consumer groups in partitions. A lease ends, and retries are reset.
-- group_name: null: all groups.
-- target: `end`: after the last message. `time`: the first message that is not older than `since`. `subscription`:
--         where the group started. `first`: the first message, for cursors that are before it; others are left.
-- Rows:  one per cursor that moved, with the name of its group and whether there is something to read.
-- Locks: the cursors, in order of partitions. If a partition is read to its end, its row, skip locked.
create or replace function {schema}.seek(partitions bigint[], group_name text, target text, since timestamptz)
returns table (partition_id bigint, consumer text, due boolean)
language plpgsql volatile set search_path = reveille_own {index_plans}
as $$
#variable_conflict use_column
declare
    source       record;
    reader       record;
    head         bigint;
    new_position bigint;
    new_due_at   timestamptz;
begin
    for source in
        select p.id, p.first_offset, q.delayed_processing_seconds, q.window_buffer_seconds,
               k.id as consumer_id, k.name, k.mode, coalesce(k.since, k.created_at) as started_at
        from unnest(partitions) as wanted (id)
        join {schema}.partition p on p.id = wanted.id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.queue_id = p.queue_id
        where seek.group_name is null or md5(k.name) = md5(seek.group_name) and k.name = seek.group_name
        order by p.id, k.id
    loop
        select c.*
        into reader
        from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id
        order by c.version desc
        limit 1
        for update;
        continue when not found;
        head := coalesce(
            (select s.next_offset
             from {schema}.segment s
             where s.partition_id = source.id
             order by s.first_offset desc
             limit 1),
            source.first_offset);
        new_position := case
            when target = 'end' then head
            when target = 'time' then {schema}.offset_at(source.id, seek.since, head)
            when target = 'subscription' and source.mode in ('new', 'timestamp')
                then {schema}.offset_at(source.id, source.started_at, head)
            when target = 'first' and reader.position >= source.first_offset then null
            else source.first_offset end;
        continue when new_position is null;
        new_due_at := {schema}.due_after(
            source.id, new_position, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c
        set version = c.version + 1,
            position = new_position,
            due_at = new_due_at,
            lease_id = null,
            lease_end = null,
            last_lease = null,
            retries = 0,
            suspect_until = 0
        where c.partition_id = reader.partition_id
          and c.consumer_id = reader.consumer_id
          and c.version = reader.version;
        partition_id := source.id;
        consumer := source.name;
        due := new_due_at < 'infinity';
        return next;
    end loop;
end
$$;
