-- Makes the lanes of a template's steps for a priority, where they are missing. Lanes are never removed, so a process
-- asks once for each. Nothing reads them but who names them: a claim finds the lanes with steps by the index.
-- Ids:   the namespace, the number of the name in it and the priority: see migrations/0008_lanes_by_range.sql.
-- Locks: the namespace: a statement that limits it, or makes lanes in it, comes before this, or after it and sees these
--        lanes.
create or replace function {schema}.open_lanes(template integer, priority smallint) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    space integer;
    last  bigint;
    names constant bigint := 16777215;
begin
    select n.id into space
    from {schema}.namespace n
    where n.id = (select t.namespace_id from {schema}.template t where t.id = template)
    for no key update;
    last := coalesce((
        select l.id from {schema}.step_lane l
        where l.id >= space::bigint << 40 and l.id < (space + 1)::bigint << 40
        order by l.id desc limit 1) >> 16 & names, 0);
    if last + (select count(*) from {schema}.definition d where d.template_id = template) > names then
        raise exception 'namespace % has too many step names: % are allowed', space, names;
    end if;
    insert into {schema}.step_lane (id, namespace_id, name, priority, space_limit_id, name_limit_id)
    select (space::bigint << 40) | (d.number << 16) | (open_lanes.priority + 32768), space, d.name,
        open_lanes.priority, s.id, n.id
    from (
        select d.name, coalesce(o.number, last + row_number() over (partition by o.number is null
            order by d.name)) as number
        from {schema}.definition d
        left join lateral (
            select l.id >> 16 & names as number from {schema}.step_lane l
            where l.namespace_id = space and l.name = d.name limit 1
        ) o on true
        where d.template_id = template
    ) d
    left join {schema}.step_limit s on s.namespace_id = space and s.name = ''
    left join {schema}.step_limit n on n.namespace_id = space and n.name = d.name
    order by d.name
    on conflict (namespace_id, name, priority) do nothing;
end
$$;
