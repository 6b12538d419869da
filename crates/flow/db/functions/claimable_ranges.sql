-- The ranges of queues, if all steps of some namespaces may be claimed, or else of lanes that a claim reads, in order.
-- spaces: the namespaces. names: of the steps; null: all but those that are left out.
-- Index:  the lanes of a name by the unique one; a lookup for each name.
create or replace function {schema}.claimable_ranges(
    whole boolean, spaces integer[], names text[], left_out text[], out froms bigint[], out tos bigint[]
)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    if whole then
        select array_agg(n.id::bigint << 40 order by n.id), array_agg((n.id::bigint << 40) + 65535
            order by n.id) into froms, tos
        from unnest(spaces) as n (id);
    elsif names is not null then
        select array_agg(l.since order by l.since), array_agg(l.since + 65535 order by l.since) into froms, tos
        from unnest(spaces) as n (id)
        cross join unnest(names) as w (name)
        cross join lateral (
            select l.id >> 16 << 16 as since from {schema}.step_lane l where l.namespace_id = n.id
                and l.name = w.name limit 1
        ) l
        where w.name <> all (left_out);
    else
        -- What lies between the names that are left out.
        select array_agg(b.since order by b.since), array_agg(b.until order by b.since) into froms, tos
        from (
            select e.since, lead(e.until) over (partition by e.space order by e.until) as until
            from (
                select n.id as space, (n.id::bigint << 40) + 65536 as since, (n.id::bigint << 40) + 65535 as until
                from unnest(spaces) as n (id)
                union all
                select n.id, (l.id >> 16) + 1 << 16, (l.id >> 16 << 16) - 1
                from unnest(spaces) as n (id)
                cross join unnest(left_out) as w (name)
                cross join lateral (
                    select l.id from {schema}.step_lane l where l.namespace_id = n.id and l.name = w.name limit 1
                ) l
                union all
                select n.id, null, (n.id + 1::bigint << 40) - 1 from unnest(spaces) as n (id)
            ) e
        ) b
        where b.since <= b.until;
    end if;
end
$$;
