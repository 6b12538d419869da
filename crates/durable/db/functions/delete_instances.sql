-- Removes instances with everything that is theirs, all of them or none. `problem` says why none: `running` or `orphan` (a child that is not
-- among them), and the instance it is about.
-- Locks: out the claims first, which hold each instance's advisory lock until their leases can be seen: a lease that was taken unseen would let its ack
--        bring the instance back. Many are locked out by the table, because advisory locks share a table of some thousands. Then leases, as an ack
--        does; one that is being acked is waited for. Then instances, in the byte order of a flight, then activities.
create or replace function {schema}.delete_instances(
    ids text[], force boolean,
    out problem text, out subject text, out instances bigint, out executions bigint, out events bigint, out messages bigint
)
language plpgsql set search_path = reveille_own
as $$
begin
    if cardinality(ids) <= 1000 then
        perform pg_advisory_xact_lock(hashtextextended({schema_text} || '/' || i.id, 1)) from (select unnest(ids) as id order by 1) i;
    else
        -- Against row locks too: an ack that has some would wait for this lock, and this for its rows.
        lock table {schema}.instance_locks in exclusive mode;
    end if;
    perform from {schema}.instance_locks l where l.instance_id = any (ids) order by l.instance_id for update;
    perform from {schema}.instances i where i.instance_id = any (ids) order by i.instance_id collate "C" for update;
    if not force then
        select 'running', i.instance_id into problem, subject from {schema}.instances i
        where i.instance_id = any (ids) and i.status = 'Running' order by 2 limit 1;
    end if;
    if problem is null then
        select 'orphan', i.instance_id into problem, subject from {schema}.instances i
        where i.parent_instance_id = any (ids) and i.instance_id <> all (ids) order by 2 limit 1;
    end if;
    if problem is not null then
        return;
    end if;
    delete from {schema}.instance_locks l where l.instance_id = any (ids);
    -- Activities before messages: one that is being acked sends one more.
    perform from {schema}.worker_queue q where q.instance_id = any (ids) order by q.instance_id, q.id for update;
    with gone as (delete from {schema}.worker_queue q where q.instance_id = any (ids) returning 1) select count(*) into messages from gone;
    with gone as (delete from {schema}.orchestrator_queue q where q.instance_id = any (ids) returning 1) select messages + count(*) into messages from gone;
    with gone as (delete from {schema}.history h where h.instance_id = any (ids) returning h.event_count)
    select coalesce(sum(event_count), 0) into events from gone;
    with gone as (delete from {schema}.executions e where e.instance_id = any (ids) returning 1) select count(*) into executions from gone;
    delete from {schema}.kv_store k where k.instance_id = any (ids);
    delete from {schema}.kv_delta k where k.instance_id = any (ids);
    with gone as (delete from {schema}.instances i where i.instance_id = any (ids) returning 1) select count(*) into instances from gone;
end
$$;
