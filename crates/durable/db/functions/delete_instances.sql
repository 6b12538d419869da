-- Deletes instances with everything that belongs to them, all of them or none. `problem` says why none was deleted, and
-- `subject` which instance it concerns: `running`, or `orphan`, a child that is not among them.
-- Locks: first against claims, which hold the advisory lock of an instance until their leases are visible: the ack of
--        an unseen lease would create the instance again. The table is locked instead for many instances, because the
--        lock table of the server has room for some thousands. Then leases, as an ack does; a running ack is waited
--        for. Then instances, in the byte order of a write batch, then activities.
create or replace function {schema}.delete_instances(
    ids text[],
    force boolean,
    out problem    text,
    out subject    text,
    out instances  bigint,
    out executions bigint,
    out events     bigint,
    out messages   bigint
)
language plpgsql
set search_path = reveille_own
as $$
begin
    if cardinality(ids) <= 1000 then
        perform pg_advisory_xact_lock(hashtextextended({schema_text} || '/' || given.id, 1))
        from (select unnest(ids) as id order by 1) as given;
    else
        -- This mode conflicts with row locks as well: otherwise an ack that holds some would wait for this lock, and
        -- this function for its rows.
        lock table {schema}.instance_locks in exclusive mode;
    end if;
    perform from {schema}.instance_locks lease
    where lease.instance_id = any (ids)
    order by lease.instance_id
    for update;
    perform from {schema}.instances instance
    where instance.instance_id = any (ids)
    order by instance.instance_id collate "C"
    for update;

    if not force then
        select 'running', instance.instance_id into problem, subject
        from {schema}.instances instance
        where instance.instance_id = any (ids) and instance.status = 'Running'
        order by instance.instance_id
        limit 1;
    end if;
    if problem is null then
        select 'orphan', child.instance_id into problem, subject
        from {schema}.instances child
        where child.parent_instance_id = any (ids) and child.instance_id <> all (ids)
        order by child.instance_id
        limit 1;
    end if;
    if problem is not null then
        return;
    end if;

    delete from {schema}.instance_locks lease where lease.instance_id = any (ids);
    -- Activities before messages: an ack of an activity that is running now sends one more message.
    perform from {schema}.worker_queue activity
    where activity.instance_id = any (ids)
    order by activity.instance_id, activity.id
    for update;
    with deleted as (
        delete from {schema}.worker_queue activity where activity.instance_id = any (ids) returning 1
    )
    select count(*) into messages from deleted;
    with deleted as (
        delete from {schema}.orchestrator_queue message where message.instance_id = any (ids) returning 1
    )
    select messages + count(*) into messages from deleted;
    with deleted as (
        delete from {schema}.history where history.instance_id = any (ids) returning history.event_count
    )
    select coalesce(sum(deleted.event_count), 0) into events from deleted;
    with deleted as (
        delete from {schema}.executions execution where execution.instance_id = any (ids) returning 1
    )
    select count(*) into executions from deleted;
    delete from {schema}.kv_store stored where stored.instance_id = any (ids);
    delete from {schema}.kv_delta changed where changed.instance_id = any (ids);
    with deleted as (
        delete from {schema}.instances instance where instance.instance_id = any (ids) returning 1
    )
    select count(*) into instances from deleted;
end
$$;
