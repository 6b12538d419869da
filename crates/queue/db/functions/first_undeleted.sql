-- The first offset of a partition from `from_offset` on whose message was not deleted; if there is none, the offset of
-- the next push.
create or replace function {schema}.first_undeleted(partition_id bigint, from_offset bigint) returns bigint
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return coalesce(
        (
            select first.message_offset
            from {schema}.segment s
            cross join lateral (
                select min(s.first_offset + element.number - 1) as message_offset
                from unnest(s.ids) with ordinality as element (id, number)
                where element.id is not null and s.first_offset + element.number - 1 >= from_offset
            ) first
            where s.partition_id = first_undeleted.partition_id
              and first.message_offset is not null
              and s.first_offset >= coalesce(
                  (select max(containing.first_offset)
                   from {schema}.segment containing
                   where containing.partition_id = first_undeleted.partition_id
                     and containing.first_offset <= from_offset),
                  from_offset)
            order by s.first_offset
            limit 1
        ),
        (
            select s.next_offset
            from {schema}.segment s
            where s.partition_id = first_undeleted.partition_id
            order by s.first_offset desc
            limit 1
        ),
        from_offset);
end
$$;
