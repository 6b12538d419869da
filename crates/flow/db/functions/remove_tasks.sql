-- Removes tasks that have ended. Their remaining rows in other tables are deleted by functions/prune_tasks.sql.
-- Answers those that were removed: not those that are open or that another transaction holds.
-- Locks: the tasks, in order, skip locked.
-- Index: primary keys.
create or replace function {schema}.remove_tasks(tasks uuid[]) returns uuid[]
language plpgsql volatile set search_path = reveille_own {index_plans}
    set jit = off
as $$
declare
    removed uuid[] := array(
        select t.id from {schema}.task t where t.id = any (tasks) and t.state <> 'open'
        order by t.id for update skip locked);
begin
    insert into {schema}.removed_task (task_id) select m.id from unnest(removed) as m (id) on conflict do nothing;
    delete from {schema}.task_detail k where k.task_id = any (removed);
    delete from {schema}.task t where t.id = any (removed);
    return removed;
end
$$;
