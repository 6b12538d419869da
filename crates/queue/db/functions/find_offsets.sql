-- The offsets of messages by the hashes of their transaction ids, in order; null for one that is not found. Searched
-- are the segments from the one with `from_offset` up to before `to_offset`.
-- A transaction id may be there twice, if a message was deleted and pushed again: the answer is the one that is not
-- deleted, because a consumer must be able to ack it.
-- Cost:  a hash join finds ten thousand among ten thousand in 10 ms. The planner would choose a nested loop.
create or replace function {schema}.find_offsets(
    partition_id bigint, from_offset bigint, to_offset bigint, hashes bigint[]
) returns bigint[]
language plpgsql stable set enable_nestloop = off
as $$
begin
    return (
        select array_agg(stored.message_offset order by wanted.number)
        from unnest(find_offsets.hashes) with ordinality as wanted (hash, number)
        left join (
            select element.hash,
                   coalesce(
                       min(s.first_offset + element.number - 1) filter (where element.id is not null),
                       min(s.first_offset + element.number - 1)) as message_offset
            from {schema}.segment s
            cross join lateral unnest(s.hashes, s.ids) with ordinality as element (hash, id, number)
            where s.partition_id = find_offsets.partition_id
              and s.first_offset < to_offset
              and s.first_offset >= coalesce(
                  (select max(containing.first_offset)
                   from {schema}.segment containing
                   where containing.partition_id = find_offsets.partition_id
                     and containing.first_offset <= from_offset),
                  from_offset)
            group by element.hash
        ) stored on stored.hash = wanted.hash
    );
end
$$;
