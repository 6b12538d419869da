-- Moves cursors past messages that have waited longer than `maxWaitTimeSeconds` of their queue. A lease that has not
-- expired is left alone, and its messages too.
-- Rows:  one per cursor that moved: its queue and group, how many messages it skipped, and whether there is something
--        to read.
-- Locks: the cursors, skip locked. If a partition was read to its end, its row, skip locked.
create or replace function {schema}.evict(partitions bigint[], consumers integer[])
returns table (queue text, consumer text, messages bigint, due boolean)
language plpgsql volatile set search_path = reveille_own {index_plans}
as $$
#variable_conflict use_column
declare
    source       record;
    reader       record;
    head         bigint;
    old_position bigint;
    new_position bigint;
    new_due_at   timestamptz;
begin
    for source in
        select p.id, p.first_offset, k.id as consumer_id, k.name, q.name as queue,
               q.max_wait_time_seconds, q.delayed_processing_seconds, q.window_buffer_seconds
        from unnest(partitions, consumers) as wanted (partition_id, consumer_id)
        join {schema}.partition p on p.id = wanted.partition_id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.id = wanted.consumer_id
        where q.max_wait_time_seconds > 0
        order by p.id, k.id
    loop
        select c.*
        into reader
        from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id
        order by c.version desc
        limit 1
        for update skip locked;
        continue when not found or reader.lease_id is not null and reader.due_at > now();
        select s.next_offset
        into head
        from {schema}.segment s
        where s.partition_id = source.id
        order by s.first_offset desc
        limit 1;
        continue when not found;
        old_position := greatest(reader.position, source.first_offset);
        new_position := {schema}.offset_at(
            source.id, now() - source.max_wait_time_seconds * interval '1 s', head);
        continue when new_position <= old_position;
        new_due_at := {schema}.due_after(
            source.id, new_position, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c
        set version = c.version + 1,
            position = new_position,
            due_at = new_due_at,
            lease_id = null,
            lease_end = null,
            retries = (new_position < c.suspect_until)::integer
        where c.partition_id = reader.partition_id
          and c.consumer_id = reader.consumer_id
          and c.version = reader.version;
        queue := source.queue;
        consumer := source.name;
        messages := new_position - old_position;
        due := new_due_at < 'infinity';
        return next;
    end loop;
end
$$;
