-- When a consumer group that has come to offset `place` of a partition has something to read there. Infinity: when the next push says so; and then the
-- partition is locked until the transaction ends, because a push in flight would not see that somebody has to be told. Whoever pushes just now is not waited for: what
-- it brings is most likely for us, and who looks then finds out.
-- Locks: the partition's row, skip locked, only if there is nothing to read.
create or replace function {schema}.due_after(partition_id bigint, place bigint, delayed_seconds integer, window_seconds integer) returns timestamptz
language plpgsql volatile
as $$
#variable_conflict use_variable
declare
    newest  record;
    oldest  timestamptz;
begin
    for attempt in 1..2 loop
        select s.next_offset, s.created_at into newest from {schema}.segment s
        where s.partition_id = due_after.partition_id order by s.first_offset desc limit 1;
        if newest.next_offset > place then
            if delayed_seconds = 0 and window_seconds = 0 then
                return now();
            end if;
            -- The first must be old enough, and the last.
            if delayed_seconds > 0 then
                select s.created_at into oldest from {schema}.segment s
                where s.partition_id = due_after.partition_id and s.next_offset > place and s.first_offset >= coalesce(
                    (select max(f.first_offset) from {schema}.segment f where f.partition_id = due_after.partition_id and f.first_offset <= place), place)
                order by s.first_offset limit 1;
            end if;
            return greatest(oldest + delayed_seconds * interval '1 s', case when window_seconds > 0 then newest.created_at + window_seconds * interval '1 s' end, now());
        end if;
        -- Lock first, decide next.
        if attempt = 1 then
            perform from {schema}.partition p where p.id = due_after.partition_id for no key update skip locked;
            if not found then
                return now();
            end if;
        end if;
    end loop;
    return 'infinity';
end
$$;
