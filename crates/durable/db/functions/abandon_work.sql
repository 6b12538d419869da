-- Releases leases of activities without an ack. They are due again after the delay (null: as before, in their old
-- order), and the attempt counts or not. `repeated`: an earlier write of the batch has the same token.
-- Outcomes: `ok`; `gone`: the token is not that of the lease; null: another transaction has locked the row, so the
-- write is sent again alone. Decided from the locked row only.
create or replace function {schema}.abandon_work(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    instances text[], ids bigint[], tokens uuid[], repeated boolean[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql
set search_path = reveille_own
{index_plans}
as $$
declare
    tids tid[];
begin
    if patient then
        perform from (
            select * from unnest(instances, ids) as abandoned (instance_id, id)
            order by abandoned.instance_id, abandoned.id
        ) as abandoned
        cross join lateral (
            select from {schema}.worker_queue activity
            where activity.instance_id = abandoned.instance_id and activity.id = abandoned.id
            for update
        ) as activity;
    end if;

    with decided as materialized (
        select abandoned.position,
               locked.tid,
               case
                   when locked.tid is null and activity.id is not null then null
                   when locked.tid is null then 'gone'
                   when locked.lock_token is distinct from abandoned.token or abandoned.repeated then 'gone'
                   else 'ok'
               end as outcome
        from unnest(instances, ids, tokens, repeated) with ordinality
             as abandoned (instance_id, id, token, repeated, position)
        left join lateral (
            select activity.id from {schema}.worker_queue activity
            where activity.instance_id = abandoned.instance_id and activity.id = abandoned.id
            offset 0
        ) as activity on true
        left join lateral (
            select activity.lock_token, activity.ctid as tid from {schema}.worker_queue activity
            where activity.instance_id = abandoned.instance_id and activity.id = abandoned.id
            for update skip locked
        ) as locked on true
    )
    select array_agg(decided.outcome order by decided.position), array_agg(decided.tid order by decided.position)
    into outcomes, tids
    from decided;

    -- In a statement of its own, as in ack_work.
    update {schema}.worker_queue activity
    set lock_token = null,
        locked_until = null,
        visible_at = coalesce(now() + abandoned.delay_ms * interval '1 ms', activity.visible_at),
        attempt_count = activity.attempt_count - abandoned.uncounted::int
    from unnest(outcomes, tids, delays_ms, uncounted) as abandoned (outcome, tid, delay_ms, uncounted)
    where abandoned.outcome = 'ok' and activity.ctid = abandoned.tid;

    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
