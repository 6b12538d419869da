-- Makes the lanes of a template's steps for a priority, where they are missing. Lanes are never removed, so a process asks once for each.
create or replace function {schema}.open_lanes(template integer, priority smallint) returns void
language sql volatile
as $$
    insert into {schema}.step_lane (namespace_id, name, priority)
    select t.namespace_id, d.name, open_lanes.priority
    from {schema}.template t
    join {schema}.definition d on d.template_id = t.id
    where t.id = template
    order by d.name
    on conflict do nothing
$$;
