-- The offsets of messages by the hashes of their transaction ids, in order, among the segments from that of offset `low` up to before `high`; null for one that is not there.
-- A transaction id may be there twice, deleted and come again: then it is the one that can be read, or else whoever reads that could never end it.
-- Cost:  by hashing: ten thousand of ten thousand are found in 10 ms. Left to itself the planner compares each with each.
create or replace function {schema}.locate(partition_id bigint, low bigint, high bigint, hashes bigint[]) returns bigint[]
language plpgsql stable set enable_nestloop = off
as $$
begin
    return (select array_agg(s.message_offset order by h.place)
    from unnest(locate.hashes) with ordinality as h (hash, place)
    left join (
        select x.hash, coalesce(min(s.first_offset + x.place - 1) filter (where x.id is not null), min(s.first_offset + x.place - 1)) as message_offset
        from {schema}.segment s
        cross join lateral unnest(s.hashes, s.ids) with ordinality as x (hash, id, place)
        where s.partition_id = locate.partition_id and s.first_offset < high and s.first_offset >= coalesce(
            (select max(f.first_offset) from {schema}.segment f where f.partition_id = locate.partition_id and f.first_offset <= low), low)
        group by x.hash
    ) s on s.hash = h.hash);
end
$$;
