-- The ranges of queue ids that a claim reads, in order: of namespace queues if all steps of some namespaces may be
-- claimed (`whole`), otherwise of step queues.
-- names: of the steps; null: all but those in `left_out`.
-- Index: the unique key of step_queue; a lookup for each name.
create or replace function {schema}.claimable_ranges(
    whole boolean, namespace_ids integer[], names text[], left_out text[], out froms bigint[], out tos bigint[]
)
language plpgsql stable
as $$
#variable_conflict use_column
begin
    if whole then
        select array_agg(n.id::bigint << 40 order by n.id), array_agg((n.id::bigint << 40) + 65535 order by n.id)
        into froms, tos
        from unnest(namespace_ids) as n (id);
    elsif names is not null then
        select array_agg(q.since order by q.since), array_agg(q.since + 65535 order by q.since)
        into froms, tos
        from unnest(namespace_ids) as n (id)
        cross join unnest(names) as w (name)
        cross join lateral (
            select q.id >> 16 << 16 as since from {schema}.step_queue q
            where q.namespace_id = n.id and q.name = w.name
            limit 1
        ) q
        where w.name <> all (left_out);
    else
        -- The ids between the names that are left out.
        select array_agg(b.since order by b.since), array_agg(b.until order by b.since)
        into froms, tos
        from (
            select e.since, lead(e.until) over (partition by e.namespace_id order by e.until) as until
            from (
                select n.id as namespace_id, (n.id::bigint << 40) + 65536 as since,
                       (n.id::bigint << 40) + 65535 as until
                from unnest(namespace_ids) as n (id)
                union all
                select n.id, (q.id >> 16) + 1 << 16, (q.id >> 16 << 16) - 1
                from unnest(namespace_ids) as n (id)
                cross join unnest(left_out) as w (name)
                cross join lateral (
                    select q.id from {schema}.step_queue q where q.namespace_id = n.id and q.name = w.name limit 1
                ) q
                union all
                select n.id, null, (n.id + 1::bigint << 40) - 1 from unnest(namespace_ids) as n (id)
            ) e
        ) b
        where b.since <= b.until;
    end if;
end
$$;
