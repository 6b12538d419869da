-- Limits how many steps may be under way at once: in a namespace (`of_name` is empty), or of a name in it. Null: no
-- more. Answers whether there is such a namespace.
-- Locks: the namespace; every writer of steps, for as long as it takes to count those under way where there was no
--        limit before.
-- Cost:  the steps that are due or leased, once.
create or replace function {schema}.limit_steps(of_namespace text, of_name text, of_most integer) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
declare
    space integer;
    mine  integer;
begin
    select n.id into space from {schema}.namespace n where n.name = of_namespace for no key update;
    if space is null then
        return false;
    end if;
    update {schema}.step_limit m set most = of_most where m.namespace_id = space and m.name = of_name
        and of_most is not null returning m.id into mine;
    if mine is null then
        -- Those who have only locked rows are waited for as well: what they have locked is written below.
        lock table {schema}.step in exclusive mode;
        if of_most is null then
            update {schema}.step_lane l set space_limit_id = case when of_name <> '' then l.space_limit_id end,
                name_limit_id = case when of_name = '' then l.name_limit_id end
            where l.namespace_id = space and (of_name = '' or l.name = of_name);
            delete from {schema}.step_limit m where m.namespace_id = space and m.name = of_name;
        else
            insert into {schema}.step_limit (namespace_id, name, most, running)
            select space, of_name, of_most, count(*)
            from {schema}.step s
            join {schema}.task t on t.id = s.task_id
            join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
            where s.state = 'i' and s.due_at < 'infinity' and t.namespace_id = space and (of_name = ''
                or d.name = of_name)
            returning id into mine;
            update {schema}.step_lane l set space_limit_id = case when of_name = '' then mine else l.space_limit_id end, name_limit_id = case when of_name = '' then l.name_limit_id else mine end
            where l.namespace_id = space and (of_name = '' or l.name = of_name);
            -- Whoever dies leaves the room that it had to the engine.
            update {schema}.step s set lane_id = 0
            from {schema}.step_lane l
            where s.lane_id >= space::bigint << 40 and s.lane_id < space + 1::bigint << 40 and l.id = s.lane_id
                and (of_name = '' or l.name = of_name)
              and s.state = 'i' and s.due_at < 'infinity';
        end if;
    end if;
    perform {schema}.notify(array[{channel}, {deliveries}, {leases}], array['', '', '']);
    return true;
end
$$;
