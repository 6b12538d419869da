-- Releases leases of instances without an ack. Their messages are due again after the delay (null: as before, in their
-- old order), and the attempt counts or not. Messages that came during the lease are not affected. `repeated`: an
-- earlier write of the batch has the same token.
-- Outcomes: `ok`; `gone`: the token is not that of the lease; null: another transaction has locked the lease, so the
-- write is sent again alone. Decided from the locked row only.
create or replace function {schema}.abandon_instances(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    instances text[], tokens uuid[], repeated boolean[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql
set search_path = reveille_own
{index_plans}
as $$
declare
    tids tid[];
begin
    if patient then
        perform from {schema}.instance_locks lease
        where lease.instance_id = any (instances)
        order by lease.instance_id
        for update;
    end if;

    with decided as materialized (
        select abandoned.position,
               locked.tid,
               case
                   when locked.tid is null and lease.instance_id is not null then null
                   when locked.tid is null then 'gone'
                   when locked.lock_token is distinct from abandoned.token or abandoned.repeated then 'gone'
                   else 'ok'
               end as outcome
        from unnest(instances, tokens, repeated) with ordinality as abandoned (instance_id, token, repeated, position)
        left join lateral (
            select lease.instance_id from {schema}.instance_locks lease
            where lease.instance_id = abandoned.instance_id
            offset 0
        ) as lease on true
        left join lateral (
            select lease.lock_token, lease.ctid as tid from {schema}.instance_locks lease
            where lease.instance_id = abandoned.instance_id
            for update skip locked
        ) as locked on true
    )
    select array_agg(decided.outcome order by decided.position), array_agg(decided.tid order by decided.position)
    into outcomes, tids
    from decided;

    -- In a statement of its own, as in ack_work. The messages were due before the lease ended, but perhaps not now: the
    -- clock may have been set back.
    with released as (
        delete from {schema}.instance_locks lease
        where lease.ctid = any (array(
            select decided.tid from unnest(outcomes, tids) as decided (outcome, tid) where decided.outcome = 'ok'
        ))
        returning lease.instance_id, lease.message_ids, greatest(now(), lease.locked_until) as latest
    )
    update {schema}.orchestrator_queue message
    set visible_at = coalesce(now() + covered.delay_ms * interval '1 ms', message.visible_at),
        attempt_count = message.attempt_count + (not covered.uncounted)::int
    from (
        select abandoned.delay_ms, abandoned.uncounted, message.tid
        from unnest(outcomes, instances, delays_ms, uncounted)
             as abandoned (outcome, instance_id, delay_ms, uncounted)
        join released on released.instance_id = abandoned.instance_id
        cross join lateral (
            select message.ctid as tid from {schema}.orchestrator_queue message
            where message.instance_id = released.instance_id
              and (message.instance_id, message.visible_at) <= (released.instance_id, released.latest)
              and message.id = any (released.message_ids)
            offset 0
        ) as message
        where abandoned.outcome = 'ok' and (abandoned.delay_ms is not null or not abandoned.uncounted)
    ) as covered
    where message.ctid = covered.tid;

    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
