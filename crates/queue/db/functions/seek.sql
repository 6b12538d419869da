-- Moves the cursors of a consumer group in partitions of a queue. group_name: null: those of all groups.
-- place: `end`: to what comes next; `time`: to the first message that is not older than `since`; `subscription`: to
-- where the group began; `floor`: of a cursor
--        before the first message there is, to that; others are left.
-- Whoever had a lease has lost it, and what failed before is forgotten.
-- Rows:  one per cursor, with the name of its group, and whether there is something to read.
-- Locks: the cursors, in order of partitions, each before it is decided where it goes; of a partition that is read to
--        its end its row, skip locked.
create or replace function {schema}.seek(partitions bigint[], group_name text, place text, since timestamptz)
returns table (partition_id bigint, consumer text, due boolean)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source record;
    mine   record;
    head   bigint;
    target bigint;
    ahead  timestamptz;
begin
    for source in
        select p.id, p.first_offset, q.delayed_processing_seconds, q.window_buffer_seconds, k.id as consumer_id, k.name, k.mode,
               coalesce(k.since, k.created_at) as began
        from unnest(partitions) as n (id)
        join {schema}.partition p on p.id = n.id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.queue_id = p.queue_id
        where seek.group_name is null or md5(k.name) = md5(seek.group_name) and k.name = seek.group_name
        order by p.id, k.id
    loop
        select c.* into mine from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id order by c.version desc limit 1 for update;
        continue when not found;
        head := coalesce((select s.next_offset from {schema}.segment s where s.partition_id = source.id order by s.first_offset desc limit 1), source.first_offset);
        target := case
            when place = 'end' then head
            when place = 'time' then {schema}.offset_at(source.id, seek.since, head)
            when place = 'subscription' and source.mode in ('new', 'timestamp') then {schema}.offset_at(source.id, source.began, head)
            when place = 'floor' and mine.position >= source.first_offset then null
            else source.first_offset end;
        continue when target is null;
        ahead := {schema}.due_after(source.id, target, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c
        set version = c.version + 1, position = target, due_at = ahead, lease_id = null, lease_end = null, last_lease = null, retries = 0,
            suspect_until = 0
        where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
        partition_id := source.id;
        consumer := source.name;
        due := ahead < 'infinity';
        return next;
    end loop;
end
$$;
