-- Removes messages from the start of partitions: whole segments that end before `end_offsets`, at most `max_segments`
-- of each partition.
-- patient: waits for a push; otherwise a partition with a push under way is skipped.
-- Rows:  one per partition that lost something: how many messages, and whether there is more to remove. A partition
--        that was skipped has no messages, and more.
-- Locks: the partitions, in order. Cursors before the first remaining message are not touched: the next claim moves on.
create or replace function {schema}.trim(
    partitions bigint[], end_offsets bigint[], max_segments integer, patient boolean
) returns table (partition_id bigint, messages bigint, more boolean)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    target       record;
    first_before bigint;
    first_after  bigint;
    removed      integer;
begin
    for target in
        select t.id, t.end_offset
        from unnest(partitions, end_offsets) as t (id, end_offset)
        order by t.id
    loop
        if patient then
            select p.first_offset
            into first_before
            from {schema}.partition p
            where p.id = target.id
            for no key update;
        else
            select p.first_offset
            into first_before
            from {schema}.partition p
            where p.id = target.id
            for no key update skip locked;
            if not found and exists (select from {schema}.partition p where p.id = target.id) then
                return query select target.id, 0::bigint, true;
                continue;
            end if;
        end if;
        continue when not found;
        select max(expired.next_offset), count(*)
        into first_after, removed
        from (
            select s.next_offset
            from {schema}.segment s
            where s.partition_id = target.id and s.first_offset < target.end_offset
            order by s.first_offset
            limit max_segments
        ) expired
        where expired.next_offset <= target.end_offset;
        continue when first_after is null;
        delete from {schema}.segment s where s.partition_id = target.id and s.first_offset < first_after;
        update {schema}.partition p set first_offset = first_after where p.id = target.id;
        partition_id := target.id;
        messages := first_after - first_before;
        more := removed = max_segments;
        return next;
    end loop;
end
$$;
