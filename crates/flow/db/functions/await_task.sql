-- Registers a client that waits for the end of a task, and answers how the task is: ended; awaited: whichever
-- transaction ends it notifies, for `lasts_ms` or twice that; locked: another transaction holds it and may not notify.
-- Null: no such task. Nothing is written if another client is registered for long enough.
-- Locks:  the task's, if it is written, for 200 ms at most: a transaction that ends it later notifies, and an end
--         before is seen here.
-- Index:  primary key.
-- Commit: synchronous_commit = off, so that the completion of a step never waits for this. A crash of the database may
--         forget it; the client registers again when its listener has reconnected.
create or replace function {schema}.await_task(task uuid, lasts_ms bigint) returns text
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    wanted  timestamptz := now() + lasts_ms * interval '1 ms';
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    perform {schema}.age_plans();
    begin
        ignored := set_config('lock_timeout', '200ms', true);
        update {schema}.task t
        set awaited_until = now() + 2 * lasts_ms * interval '1 ms'
        where t.id = task and t.state = 'open' and coalesce(t.awaited_until, '-infinity') < wanted;
    exception when lock_not_available then
        null;
    end;
    return (
        select case when t.state <> 'open' then 'ended' when t.awaited_until >= wanted then 'awaited' else 'locked' end
        from {schema}.task t
        where t.id = task);
end
$$;
