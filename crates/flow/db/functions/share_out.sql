-- How many steps a claim takes from each of some queues or lanes of one priority, such that it takes those that have
-- been due longest.
-- whole:  they are queues; otherwise lanes. ids: in order of `firsts`, from where each is read; null: nothing is left
--         in it. spaces, names: their limits; `limited`: whether there are any.
-- Answer: by place; null: nothing can be taken.
-- Cost:   one that has all of it is not read. Of several, as many steps as are wanted are read from each: the longest
--         due of each are enough to know how far to read, so that is about four times as many as are wanted.
create or replace function {schema}.share_out(
    whole boolean, ids bigint[], firsts timestamptz[], spaces integer[], names integer[], limited boolean, want integer
) returns integer[]
language plpgsql stable
as $$
#variable_conflict use_column
declare
    rooms       integer[] := array_fill(want, array[cardinality(ids)]);
    space_rooms integer[] := rooms;
    until       timestamptz := now();
    sample      integer;
    quotas      integer[];
begin
    if limited then
        select array_agg(coalesce(least(want, n.most - n.running), want) order by l.place),
            array_agg(coalesce(least(want, s.most - s.running), want) order by l.place)
        into rooms, space_rooms
        from unnest(spaces, names) with ordinality as l (space_limit, name_limit, place)
        left join {schema}.step_limit s on s.id = l.space_limit
        left join {schema}.step_limit n on n.id = l.name_limit;
    end if;
    if cardinality(ids) = 1 then
        quotas := array[least(rooms[1], space_rooms[1])];
        return case when quotas[1] > 0 and firsts[1] <= now() then quotas end;
    end if;
    if not limited and cardinality(ids) > 4 then
        -- If a part of them have `sample` steps each until then, those are enough.
        sample := 2 * want / cardinality(ids) + 1;
        select coalesce(p.due_at, now()) into until
        from (
            select s.due_at
            from unnest(ids, firsts) as l (id, first)
            cross join lateral (
                (select s.due_at from {schema}.step s
                 where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= now()
                     and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
                union all
                (select s.due_at from {schema}.step s
                 where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= now()
                     and s.due_at < 'infinity'
                 order by s.due_at offset sample - 1 limit 1)
            ) s
            order by s.due_at
            offset (want - 1) / sample limit 1
        ) p;
        until := coalesce(until, now());
    end if;
    select array_agg(coalesce(q.steps, 0) order by l.place) into quotas
    from generate_subscripts(ids, 1) as l (place)
    left join (
        select c.place, count(*)::integer as steps
        from (
            select s.place
            from (
                select l.place, l.space_room, s.due_at, row_number() over (partition by l.space
                    order by s.due_at) as nth
                from (
                    -- No more of them than steps are wanted: the first step of each is due before whatever is in the
                    -- next.
                    select * from unnest(ids, firsts, rooms, space_rooms, spaces) with ordinality as l (id, first,
                        room, space_room, space, place)
                    where l.first <= until and l.room > 0 and l.space_room > 0
                    order by l.first limit want
                ) l
                cross join lateral (
                    (select s.due_at from {schema}.step s
                     where whole and s.queue_id = l.id and s.due_at >= l.first and s.due_at <= until
                         and s.due_at < 'infinity'
                     order by s.due_at limit l.room)
                    union all
                    (select s.due_at from {schema}.step s
                     where not whole and s.lane_id = l.id and s.due_at >= l.first and s.due_at <= until
                         and s.due_at < 'infinity'
                     order by s.due_at limit l.room)
                ) s
            ) s
            where s.space_room is null or s.nth <= s.space_room
            order by s.due_at limit want
        ) c
        group by c.place
    ) q on q.place = l.place;
    return case when exists (select from unnest(quotas) as q (steps) where q.steps > 0) then quotas end;
end
$$;
