-- Gives turns up: their messages visible again after a delay (null: as before, in their old place), the attempt counted or not. Messages that
-- came later keep their place. Outcomes: `ok`; `gone`: the lease is not theirs any more; null: somebody else has its row locked.
create or replace function {schema}.abandon_instances(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], tokens uuid[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    held text[];
begin
    if patient then
        held := array(select l.instance_id from {schema}.instance_locks l where l.instance_id = any (instances) order by 1 for update);
    else
        held := array(select l.instance_id from {schema}.instance_locks l where l.instance_id = any (instances) order by 1 for update skip locked);
    end if;
    with asked as materialized (
        select m.*, row_number() over (partition by m.instance_id, m.token order by m.place) = 1 as first
        from unnest(instances, tokens, delays_ms, uncounted) with ordinality as m (instance_id, token, delay_ms, uncounted, place)
    ), judged as materialized (
        select a.*, case when l.instance_id is null then 'gone'
                         when not l.instance_id = any (held) then null
                         when l.lock_token is distinct from a.token or not a.first then 'gone'
                         else 'ok' end as verdict
        from asked a left join {schema}.instance_locks l on l.instance_id = a.instance_id
    ), given_up as (
        delete from {schema}.instance_locks l using judged j where j.verdict = 'ok' and l.instance_id = j.instance_id
        returning l.instance_id, l.message_ids, j.delay_ms, j.uncounted
    ), again as (
        update {schema}.orchestrator_queue q
        set visible_at = coalesce(now() + g.delay_ms * interval '1 ms', q.visible_at),
            attempt_count = q.attempt_count + (not g.uncounted)::int
        from given_up g
        where q.instance_id = g.instance_id and q.id = any (g.message_ids) and (g.delay_ms is not null or not g.uncounted)
    )
    select array_agg(j.verdict order by j.place) into outcomes from judged j;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$$;
