-- Limits how many steps may be in progress at once: in a namespace (`of_name` is empty), or of a name in it. Null
-- removes the limit. Answers whether there is such a namespace.
-- Locks: the namespace; the table `step` against writers, while the steps in progress are counted for a new limit.
-- Cost:  the steps that are due or leased, once.
create or replace function {schema}.limit_steps(of_namespace text, of_name text, of_max_running integer)
returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
declare
    of_namespace_id integer;
    limit_id        integer;
begin
    select n.id into of_namespace_id from {schema}.namespace n where n.name = of_namespace for no key update;
    if of_namespace_id is null then
        return false;
    end if;
    update {schema}.step_limit m
    set max_running = of_max_running
    where m.namespace_id = of_namespace_id and m.name = of_name and of_max_running is not null
    returning m.id into limit_id;
    if limit_id is null then
        -- Conflicts with row locks, too: a transaction that has locked steps writes them below.
        lock table {schema}.step in exclusive mode;
        if of_max_running is null then
            update {schema}.step_queue q
            set namespace_limit_id = case when of_name <> '' then q.namespace_limit_id end,
                name_limit_id = case when of_name = '' then q.name_limit_id end
            where q.namespace_id = of_namespace_id and (of_name = '' or q.name = of_name);
            delete from {schema}.step_limit m where m.namespace_id = of_namespace_id and m.name = of_name;
        else
            insert into {schema}.step_limit (namespace_id, name, max_running, running)
            select of_namespace_id, of_name, of_max_running, count(*)
            from {schema}.step s
            join {schema}.task t on t.id = s.task_id
            join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
            where s.state = 'in_progress' and s.due_at < 'infinity' and t.namespace_id = of_namespace_id
              and (of_name = '' or d.name = of_name)
            returning id into limit_id;
            update {schema}.step_queue q
            set namespace_limit_id = case when of_name = '' then limit_id else q.namespace_limit_id end,
                name_limit_id = case when of_name = '' then q.name_limit_id else limit_id end
            where q.namespace_id = of_namespace_id and (of_name = '' or q.name = of_name);
            -- The engine ends the leases of limited steps.
            update {schema}.step s
            set queue_id = 0
            from {schema}.step_queue q
            where s.queue_id >= of_namespace_id::bigint << 40 and s.queue_id < of_namespace_id + 1::bigint << 40
              and q.id = s.queue_id and (of_name = '' or q.name = of_name)
              and s.state = 'in_progress' and s.due_at < 'infinity';
        end if;
    end if;
    perform {schema}.notify(array[{channel}, {deliveries}, {leases}], array['', '', '']);
    return true;
end
$$;
