-- Gives activities up: visible again after a delay (null: as before, in their old place), the attempt counted or not. `again`: the same token came
-- before, in this flight. Outcomes: `ok`; `gone`: it is not theirs any more; null: somebody else has the row locked. Decided only from
-- columns of the locked row.
create or replace function {schema}.abandon_work(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], ids bigint[], tokens uuid[], again boolean[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    tids tid[];
begin
    if patient then
        perform from (select * from unnest(instances, ids) as m (instance_id, id) order by m.instance_id, m.id) m
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id for update) q;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.id is not null then case when h.lock_token is distinct from m.token or m.again then 'gone' else 'ok' end
                    when q.id is null then 'gone' end as verdict
        from unnest(instances, ids, tokens, again) with ordinality as m (instance_id, id, token, again, place)
        left join lateral (select q.id from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id offset 0) q on true
        left join lateral (select q.id, q.lock_token, q.ctid as tid from {schema}.worker_queue q
                           where q.instance_id = m.instance_id and q.id = m.id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid order by j.place) into outcomes, tids from judged j;
    -- In a statement of its own, as in ack_work.
    update {schema}.worker_queue q
    set lock_token = null, locked_until = null,
        visible_at = coalesce(now() + j.delay_ms * interval '1 ms', q.visible_at),
        attempt_count = q.attempt_count - j.uncounted::int
    from unnest(outcomes, tids, delays_ms, uncounted) as j (verdict, tid, delay_ms, uncounted)
    where j.verdict = 'ok' and q.ctid = j.tid;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
