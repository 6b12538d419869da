-- How many steps a claim takes from each of some queues of one priority, so that it takes those due longest.
-- whole:  they are namespace queues; otherwise step queues. ids: in order of `firsts`, where to read each from; null:
--         nothing is left in it. namespace_limits, name_limits: of each; `limited`: whether there are any.
-- Answer: by queue; null: nothing can be taken.
-- Cost:   a single queue is not read. Of several, as many steps as are wanted are read from each: the longest due of
--         each tell how far to read, so that is about four times as many as are wanted.
create or replace function {schema}.divide_claim(
    whole boolean, ids bigint[], firsts timestamptz[], namespace_limits integer[], name_limits integer[],
    limited boolean, want integer
) returns integer[]
language plpgsql stable
as $$
#variable_conflict use_column
declare
    name_rooms      integer[] := array_fill(want, array[cardinality(ids)]);
    namespace_rooms integer[] := name_rooms;
    until           timestamptz := now();
    sample          integer;
    quotas          integer[];
begin
    if limited then
        select array_agg(coalesce(least(want, n.max_running - n.running), want) order by q.index),
               array_agg(coalesce(least(want, s.max_running - s.running), want) order by q.index)
        into name_rooms, namespace_rooms
        from unnest(namespace_limits, name_limits) with ordinality as q (namespace_limit, name_limit, index)
        left join {schema}.step_limit s on s.id = q.namespace_limit
        left join {schema}.step_limit n on n.id = q.name_limit;
    end if;
    if cardinality(ids) = 1 then
        quotas := array[least(name_rooms[1], namespace_rooms[1])];
        return case when quotas[1] > 0 and firsts[1] <= now() then quotas end;
    end if;
    if not limited and cardinality(ids) > 4 then
        -- Enough steps are due until then if some of the queues have `sample` steps each.
        sample := 2 * want / cardinality(ids) + 1;
        select coalesce(p.due_at, now()) into until
        from (
            select s.due_at
            from unnest(ids, firsts) as q (id, first)
            cross join lateral (
                (select s.due_at from {schema}.step s
                 where whole and s.namespace_queue_id = q.id and s.due_at >= q.first and s.due_at <= now()
                   and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
                union all
                (select s.due_at from {schema}.step s
                 where not whole and s.queue_id = q.id and s.due_at >= q.first and s.due_at <= now()
                   and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
            ) s
            order by s.due_at
            offset (want - 1) / sample limit 1
        ) p;
        until := coalesce(until, now());
    end if;
    select array_agg(coalesce(counted.steps, 0) order by i.index) into quotas
    from generate_subscripts(ids, 1) as i (index)
    left join (
        select taken.index, count(*)::integer as steps
        from (
            select due.index
            from (
                select q.index, q.namespace_room, s.due_at,
                       row_number() over (partition by q.namespace_limit order by s.due_at) as nth
                from (
                    -- As many queues as steps are wanted: the first step of each is due before those of the next.
                    select *
                    from unnest(ids, firsts, name_rooms, namespace_rooms, namespace_limits)
                        with ordinality as q (id, first, name_room, namespace_room, namespace_limit, index)
                    where q.first <= until and q.name_room > 0 and q.namespace_room > 0
                    order by q.first limit want
                ) q
                cross join lateral (
                    (select s.due_at from {schema}.step s
                     where whole and s.namespace_queue_id = q.id and s.due_at >= q.first and s.due_at <= until
                       and s.due_at < 'infinity'
                     order by s.due_at limit q.name_room)
                    union all
                    (select s.due_at from {schema}.step s
                     where not whole and s.queue_id = q.id and s.due_at >= q.first and s.due_at <= until
                       and s.due_at < 'infinity'
                     order by s.due_at limit q.name_room)
                ) s
            ) due
            where due.namespace_room is null or due.nth <= due.namespace_room
            order by due.due_at limit want
        ) taken
        group by taken.index
    ) counted on counted.index = i.index;
    return case when exists (select from unnest(quotas) as q (steps) where q.steps > 0) then quotas end;
end
$$;
