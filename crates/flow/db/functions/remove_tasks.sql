-- Removes tasks that have ended: from here on they are not there for anybody. What is left of them in other tables is
-- deleted by functions/prune_tasks.sql.
-- Answers those that were removed: not those that are open, nor those that another transaction holds.
-- Locks: the tasks, in order, skip locked.
-- Index: primary keys.
create or replace function {schema}.remove_tasks(tasks uuid[]) returns uuid[]
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
    set jit = off
as $$
declare
    mine uuid[] := array(
        select t.id from {schema}.task t where t.id = any (tasks) and t.state <> 'o'
        order by t.id for update skip locked);
begin
    insert into {schema}.removed_task (task_id) select m.id from unnest(mine) as m (id) on conflict do nothing;
    delete from {schema}.task_detail k where k.task_id = any (mine);
    delete from {schema}.task t where t.id = any (mine);
    return mine;
end
$$;
