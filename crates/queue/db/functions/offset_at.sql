-- The first offset of a partition whose message is not older than `since`; `head` if there is none. A binary search,
-- because segments are in order of time.
create or replace function {schema}.offset_at(partition_id bigint, since timestamptz, head bigint) returns bigint
language plpgsql stable
as $$
#variable_conflict use_column
declare
    low    bigint;
    high   bigint := head;
    middle record;
begin
    select s.first_offset
    into low
    from {schema}.segment s
    where s.partition_id = offset_at.partition_id
    order by s.first_offset
    limit 1;
    while low < high loop
        -- The last segment that starts at or before the middle.
        select s.first_offset, s.next_offset, s.created_at
        into middle
        from {schema}.segment s
        where s.partition_id = offset_at.partition_id and s.first_offset <= (low + high) / 2
        order by s.first_offset desc
        limit 1;
        if middle.created_at >= since then
            high := middle.first_offset;
        else
            low := middle.next_offset;
        end if;
    end loop;
    return coalesce(low, head);
end
$$;
