-- The first offset of a partition from `place` on whose message was not deleted; where there is none, the next that will be given out.
create or replace function {schema}.first_live(partition_id bigint, place bigint) returns bigint
language plpgsql stable
as $$
#variable_conflict use_column
begin
    return coalesce(
        (select l.message_offset from {schema}.segment s
         cross join lateral (select min(s.first_offset + i.place - 1) as message_offset from unnest(s.ids) with ordinality as i (id, place)
                             where i.id is not null and s.first_offset + i.place - 1 >= first_live.place) l
         where s.partition_id = first_live.partition_id and l.message_offset is not null and s.first_offset >= coalesce(
             (select max(f.first_offset) from {schema}.segment f where f.partition_id = first_live.partition_id and f.first_offset <= first_live.place), first_live.place)
         order by s.first_offset limit 1),
        (select s.next_offset from {schema}.segment s where s.partition_id = first_live.partition_id order by s.first_offset desc limit 1),
        first_live.place);
end
$$;
