-- When a consumer group at offset `position` of a partition has something to read. Infinity: after the next push, which
-- will say so; then the partition stays locked until the transaction ends, because a push that is under way would not
-- see that the cursor has to be made due. If a push holds the lock, the answer is now: most likely it brings something,
-- and the next claim finds out.
-- Locks: the partition's row, skip locked, only if there is nothing to read.
create or replace function {schema}.due_after(
    partition_id bigint, "position" bigint, delayed_seconds integer, window_seconds integer
) returns timestamptz
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
    newest record;
    oldest timestamptz;
begin
    for attempt in 1..2 loop
        select s.next_offset, s.created_at
        into newest
        from {schema}.segment s
        where s.partition_id = due_after.partition_id
        order by s.first_offset desc
        limit 1;
        if newest.next_offset > due_after.position then
            if delayed_seconds = 0 and window_seconds = 0 then
                return now();
            end if;
            -- The delay counts from the first message to read, the window from the last.
            if delayed_seconds > 0 then
                select s.created_at
                into oldest
                from {schema}.segment s
                where s.partition_id = due_after.partition_id
                  and s.next_offset > due_after.position
                  and s.first_offset >= coalesce(
                      (select max(containing.first_offset)
                       from {schema}.segment containing
                       where containing.partition_id = due_after.partition_id
                         and containing.first_offset <= due_after.position),
                      due_after.position)
                order by s.first_offset
                limit 1;
            end if;
            return greatest(
                oldest + delayed_seconds * interval '1 s',
                case when window_seconds > 0 then newest.created_at + window_seconds * interval '1 s' end,
                now());
        end if;
        -- Lock, then check again.
        if attempt = 1 then
            perform from {schema}.partition p
            where p.id = due_after.partition_id
            for no key update skip locked;
            if not found then
                return now();
            end if;
        end if;
    end loop;
    return 'infinity';
end
$$;
