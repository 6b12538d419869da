-- Gives turns up: their messages visible again after a delay (null: as before, in their old place), the attempt counted or not. Messages that
-- came later keep their place. `again`: the same token came before, in this flight. Outcomes: `ok`; `gone`: the lease is not theirs any more; null:
-- somebody else has its row locked. Decided only from columns of the locked row.
create or replace function {schema}.abandon_instances(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    tids tid[];
begin
    if patient then
        perform from {schema}.instance_locks l where l.instance_id = any (instances) order by l.instance_id for update;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.instance_id is not null then case when h.lock_token is distinct from m.token or m.again then 'gone' else 'ok' end
                    when l.instance_id is null then 'gone' end as verdict
        from unnest(instances, tokens, again) with ordinality as m (instance_id, token, again, place)
        left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = m.instance_id offset 0) l on true
        left join lateral (select l.instance_id, l.lock_token, l.ctid as tid from {schema}.instance_locks l
                           where l.instance_id = m.instance_id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid order by j.place) into outcomes, tids from judged j;
    -- In a statement of its own, as in ack_work.
    with given_up as (
        delete from {schema}.instance_locks l
        where l.ctid = any (array(select j.tid from unnest(outcomes, tids) as j (verdict, tid) where j.verdict = 'ok'))
        returning l.instance_id, l.message_ids, greatest(now(), l.locked_until) as latest
    )
    -- They were due before the end of the lease, but perhaps not by now: the clock may have been set back.
    update {schema}.orchestrator_queue q
    set visible_at = coalesce(now() + m.delay_ms * interval '1 ms', q.visible_at),
        attempt_count = q.attempt_count + (not m.uncounted)::int
    from (select j.delay_ms, j.uncounted, q.tid
          from unnest(outcomes, instances, delays_ms, uncounted) as j (verdict, instance_id, delay_ms, uncounted)
          join given_up l on l.instance_id = j.instance_id
          cross join lateral (
              select q.ctid as tid from {schema}.orchestrator_queue q
              where q.instance_id = l.instance_id and (q.instance_id, q.visible_at) <= (l.instance_id, l.latest) and q.id = any (l.message_ids) offset 0) q
          where j.verdict = 'ok' and (j.delay_ms is not null or not j.uncounted)) m
    where q.ctid = m.tid;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
