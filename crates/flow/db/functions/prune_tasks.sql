-- Removes tasks whose retention is over, at most `most_tasks`, in the order of their ends; and deletes the remaining
-- rows of removed tasks, at most `most_rows` per table. Returns how many tasks were removed, and whether there is more
-- to do. Several processes may run this concurrently.
-- Locks:    the tasks, skip locked, see functions/remove_tasks.sql. Nothing waits for them: only an operator writes to
--           a task that has ended.
-- Index:    task_ended of each namespace and state forwards; removed_task; then the primary keys, task_operation_task,
--           investigation_task and domain_event_task.
-- Commit:   synchronous_commit = off. What a crash forgets is done again.
-- Cost:     1 000 000 tasks of a step, an attempt, an event and an investigation each take 47 s in 2 001 transactions,
--           the longest 0.16 s, and 1.3 kB of WAL per task, full pages included.
-- Bloat:    with 60 000 tasks kept and 1 000 a second made and removed, the tables stop growing at twice their live
--           size (task 29 MB, step 24 MB, attempt 19 MB) once autovacuum has come by twice, with its default settings.
create or replace function {schema}.prune_tasks(most_tasks integer, most_rows integer)
returns table (removed integer, more boolean)
language plpgsql volatile set search_path = reveille_own {index_plans}
    set jit = off
as $$
#variable_conflict use_column
declare
    ignored text := set_config('synchronous_commit', 'off', true);
    expired uuid[];
    gone    uuid[];
    deleted bigint;
    most    bigint := 0;
begin
    perform {schema}.age_plans();
    expired := array(
        select t.id
        from {schema}.namespace n
        cross join lateral (
            select state, case state when 'error' then n.failed_retention_s else n.retention_s end as keep_s
            from unnest('{complete,error,cancelled,resolved_manually}'::{schema}.task_state[]) as state
        ) k
        cross join lateral (
            select t.id from {schema}.task t
            where t.namespace_id = n.id and t.state = k.state
              and t.ended_at is not null and t.ended_at <= now() - k.keep_s * interval '1 s'
            order by t.ended_at limit most_tasks
        ) t
        limit most_tasks);
    removed := cardinality({schema}.remove_tasks(expired));

    gone := array(
        select r.task_id from {schema}.removed_task r order by r.task_id limit most_tasks for update skip locked);
    delete from {schema}.step s
    where s.ctid = any (array(select o.ctid from {schema}.step o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.step_data x
    where x.ctid = any (array(select o.ctid from {schema}.step_data o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.attempt a
    where a.ctid = any (array(select o.ctid from {schema}.attempt o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.task_operation p
    where p.ctid = any (
        array(select o.ctid from {schema}.task_operation o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.investigation i
    where i.ctid = any (
        array(select o.ctid from {schema}.investigation o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    delete from {schema}.domain_event e
    where e.ctid = any (array(select o.ctid from {schema}.domain_event o where o.task_id = any (gone) limit most_rows));
    get diagnostics deleted = row_count;
    most := greatest(most, deleted);
    -- Nothing adds rows of a removed task. If every table had fewer than the limit, none is left.
    if most < most_rows then
        delete from {schema}.removed_task r where r.task_id = any (gone);
    end if;
    more := most = most_rows or cardinality(gone) = most_tasks or removed = most_tasks;
    return next;
end
$$;
