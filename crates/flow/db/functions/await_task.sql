-- How a task stands for who waits for its end: e: it has ended. m: it has not, and whoever ends it rings, for a while (`lasts_ms`) or twice that. l: somebody holds it, and may not ring. Null: there is no such.
-- Nothing is written if somebody has seen to it already.
-- Locks:  the task's, if it is written, and not for long if somebody has it: whoever ends it after that rings, and an end before that is seen here.
-- Index:  primary key.
-- Commit: is not waited for to be on disk, so that nobody who ends a step waits for this. A crash of the database may forget it; whoever waits asks again as soon as it hears again.
create or replace function {schema}.await_task(task uuid, lasts_ms bigint) returns text
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off set jit = off
as $$
declare
    wanted  timestamptz := now() + lasts_ms * interval '1 ms';
    ignored text := set_config('synchronous_commit', 'off', true);
begin
    perform {schema}.age_plans();
    begin
        ignored := set_config('lock_timeout', '200ms', true);
        update {schema}.task t set awaited_until = now() + 2 * lasts_ms * interval '1 ms'
        where t.id = task and t.state = 'o' and coalesce(t.awaited_until, '-infinity') < wanted;
    exception when lock_not_available then
        null;
    end;
    return (select case when t.state <> 'o' then 'e' when t.awaited_until >= wanted then 'm' else 'l' end from {schema}.task t where t.id = task);
end
$$;
