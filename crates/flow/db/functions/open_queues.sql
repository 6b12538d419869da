-- Creates the queues of a template's steps for a priority, where they are missing. Queues are never removed, so a
-- process calls this once for each. A claim finds the queues that have steps by the index, not by this table.
-- Ids:   the namespace, the number of the name in it and the priority: see the table step_queue.
-- Locks: the namespace: a transaction that limits it, or creates queues in it, comes before this, or sees these queues.
create or replace function {schema}.open_queues(template integer, priority smallint) returns void
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    of_namespace_id integer;
    last_number     bigint;
    max_number      constant bigint := 16777215;
begin
    select n.id into of_namespace_id
    from {schema}.namespace n
    where n.id = (select t.namespace_id from {schema}.template t where t.id = template)
    for no key update;
    last_number := coalesce((
        select q.id from {schema}.step_queue q
        where q.id >= of_namespace_id::bigint << 40 and q.id < (of_namespace_id + 1)::bigint << 40
        order by q.id desc limit 1) >> 16 & max_number, 0);
    if last_number + (select count(*) from {schema}.definition d where d.template_id = template) > max_number then
        raise exception 'namespace % has too many step names: at most % are allowed', of_namespace_id, max_number;
    end if;
    insert into {schema}.step_queue (id, namespace_id, name, priority, namespace_limit_id, name_limit_id)
    select (of_namespace_id::bigint << 40) | (d.number << 16) | (open_queues.priority + 32768),
           of_namespace_id, d.name, open_queues.priority, namespace_limit.id, name_limit.id
    from (
        select d.name, coalesce(existing.number, last_number
                   + row_number() over (partition by existing.number is null order by d.name)) as number
        from {schema}.definition d
        left join lateral (
            select q.id >> 16 & max_number as number from {schema}.step_queue q
            where q.namespace_id = of_namespace_id and q.name = d.name
            limit 1
        ) existing on true
        where d.template_id = template
    ) d
    left join {schema}.step_limit namespace_limit
        on namespace_limit.namespace_id = of_namespace_id and namespace_limit.name = ''
    left join {schema}.step_limit name_limit
        on name_limit.namespace_id = of_namespace_id and name_limit.name = d.name
    order by d.name
    on conflict (namespace_id, name, priority) do nothing;
end
$$;
