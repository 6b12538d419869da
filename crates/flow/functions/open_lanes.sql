-- Makes the lanes of a template's steps for a priority, where they are missing. Lanes are never removed, so a process asks once for each.
-- Locks: the namespace, shared: whoever limits it comes before this, or after it and sees these lanes.
create or replace function {schema}.open_lanes(template integer, priority smallint) returns void
language sql volatile
as $$
    select from {schema}.namespace n where n.id = (select t.namespace_id from {schema}.template t where t.id = template) for share;
    insert into {schema}.step_lane (namespace_id, name, priority, space_limit_id, name_limit_id)
    select t.namespace_id, d.name, open_lanes.priority, s.id, n.id
    from {schema}.template t
    join {schema}.definition d on d.template_id = t.id
    left join {schema}.step_limit s on s.namespace_id = t.namespace_id and s.name = ''
    left join {schema}.step_limit n on n.namespace_id = t.namespace_id and n.name = d.name
    where t.id = template
    order by d.name
    on conflict do nothing
$$;
