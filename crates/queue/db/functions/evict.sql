-- Moves cursors past messages that have waited for longer than their queue wants. Whoever has a lease keeps it, and
-- what it has.
-- Rows:  one per cursor that moved: its queue and group, how many messages it passed over, and whether there is
--        something to read.
-- Locks: the cursors, skip locked, each before it is decided where it goes; of a partition that is read to its end its
--        row, skip locked.
create or replace function {schema}.evict(partitions bigint[], consumers integer[]) returns table (queue text, consumer text, messages bigint, due boolean)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    source record;
    mine   record;
    head   bigint;
    floor  bigint;
    target bigint;
    ahead  timestamptz;
begin
    for source in
        select p.id, p.first_offset, k.id as consumer_id, k.name, q.name as queue, q.max_wait_time_seconds, q.delayed_processing_seconds, q.window_buffer_seconds
        from unnest(partitions, consumers) as n (partition_id, consumer_id)
        join {schema}.partition p on p.id = n.partition_id
        join {schema}.queue q on q.id = p.queue_id
        join {schema}.consumer k on k.id = n.consumer_id
        where q.max_wait_time_seconds > 0
        order by p.id, k.id
    loop
        select c.* into mine from {schema}.cursor c
        where c.partition_id = source.id and c.consumer_id = source.consumer_id order by c.version desc limit 1 for update skip locked;
        continue when not found or mine.lease_id is not null and mine.due_at > now();
        select s.next_offset into head from {schema}.segment s where s.partition_id = source.id order by s.first_offset desc limit 1;
        continue when not found;
        target := {schema}.offset_at(source.id, now() - source.max_wait_time_seconds * interval '1 s', head);
        floor := greatest(mine.position, source.first_offset);
        continue when target <= floor;
        ahead := {schema}.due_after(source.id, target, source.delayed_processing_seconds, source.window_buffer_seconds);
        update {schema}.cursor c set version = c.version + 1, position = target, due_at = ahead, lease_id = null, lease_end = null,
            retries = (target < c.suspect_until)::integer
        where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
        queue := source.queue;
        consumer := source.name;
        messages := target - floor;
        due := ahead < 'infinity';
        return next;
    end loop;
end
$$;
