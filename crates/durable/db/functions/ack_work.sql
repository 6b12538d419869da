-- Part of `commit`. Applies finished activities: removes each, and sends the message with its result, if any.
-- Outcomes, one per activity: `ok`; `gone`: cancelled, acked before or claimed again; `expired`: the lease has expired;
-- null: another transaction has locked the row, so the write is sent again alone. Decided from the locked row only.
create or replace function {schema}.ack_work(
    patient boolean, finished {schema}.finished_activities
) returns text[]
language plpgsql
as $$
declare
    outcomes text[];
    tids     tid[];
    sessions text[];
begin
    if patient then
        perform from (
            select * from unnest(finished.instance_ids, finished.ids) as ack (instance_id, id)
            order by ack.instance_id, ack.id
        ) as ack
        cross join lateral (
            select from {schema}.worker_queue activity
            where activity.instance_id = ack.instance_id and activity.id = ack.id
            for update
        ) as activity;
    end if;

    with decided as materialized (
        select ack.position,
               locked.session_id,
               locked.tid,
               case
                   when locked.tid is null and activity.id is not null then null
                   when locked.tid is null then 'gone'
                   when locked.lock_token is distinct from ack.lock_token or ack.repeated then 'gone'
                   when locked.locked_until <= clock_timestamp() then 'expired'
                   else 'ok'
               end as outcome
        from unnest(finished.instance_ids, finished.ids, finished.lock_tokens, finished.repeated) with ordinality
             as ack (instance_id, id, lock_token, repeated, position)
        left join lateral (
            select activity.id from {schema}.worker_queue activity
            where activity.instance_id = ack.instance_id and activity.id = ack.id
            offset 0
        ) as activity on true
        left join lateral (
            select activity.lock_token, activity.locked_until, activity.session_id, activity.ctid as tid
            from {schema}.worker_queue activity
            where activity.instance_id = ack.instance_id and activity.id = ack.id
            for update skip locked
        ) as locked on true
    )
    select array_agg(decided.outcome order by decided.position),
           array_agg(decided.tid) filter (where decided.outcome = 'ok'),
           array_agg(distinct decided.session_id)
               filter (where decided.outcome = 'ok' and decided.session_id is not null)
    into outcomes, tids, sessions
    from decided;

    -- Deleted by ctid, which cannot change while the rows are locked. Not in the statement that locks them: its
    -- snapshot may be older than a renewal that committed meanwhile, and it would then not delete that row.
    if tids is not null then
        with ended as (
            delete from {schema}.worker_queue activity where activity.ctid = any (tids)
        )
        insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
        select ack.receiver, now() + ack.position * interval '1 us', ack.work_item
        from unnest(outcomes, finished.receivers, finished.work_items) with ordinality
             as ack (outcome, receiver, work_item, position)
        where ack.outcome = 'ok' and ack.work_item is not null
        order by ack.position;
    end if;

    if sessions is not null then
        -- Several sessions are locked in the same order as by `renew_sessions`.
        if cardinality(sessions) > 1 then
            perform from {schema}.sessions session
            where session.session_id = any (sessions) and session.locked_until > now()
            order by session.session_id
            for update;
        end if;
        update {schema}.sessions session set last_activity_at = now()
        where session.session_id = any (sessions) and session.locked_until > now();
    end if;
    return outcomes;
end
$$;
