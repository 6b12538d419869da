-- Gives activities up: visible again after a delay (null: as before, in their old place), the attempt counted or not. Outcomes: `ok`;
-- `gone`: it is not theirs any more; null: somebody else has the row locked.
create or replace function {schema}.abandon_work(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], ids bigint[], tokens uuid[], delays_ms bigint[], uncounted boolean[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
declare
    held bigint[];
begin
    if patient then
        held := array(select q.id from unnest(instances, ids) as m (instance_id, id)
                      join {schema}.worker_queue q on q.instance_id = m.instance_id and q.id = m.id
                      order by q.instance_id, q.id for update of q);
    else
        held := array(select q.id from unnest(instances, ids) as m (instance_id, id)
                      join {schema}.worker_queue q on q.instance_id = m.instance_id and q.id = m.id
                      order by q.instance_id, q.id for update of q skip locked);
    end if;
    with asked as materialized (
        select m.*, row_number() over (partition by m.instance_id, m.id, m.token order by m.place) = 1 as first
        from unnest(instances, ids, tokens, delays_ms, uncounted) with ordinality as m (instance_id, id, token, delay_ms, uncounted, place)
    ), judged as materialized (
        select a.*, case when q.id is null then 'gone'
                         when not q.id = any (held) then null
                         when q.lock_token is distinct from a.token or not a.first then 'gone'
                         else 'ok' end as verdict
        from asked a left join {schema}.worker_queue q on q.instance_id = a.instance_id and q.id = a.id
    ), given_up as (
        update {schema}.worker_queue q
        set lock_token = null, locked_until = null,
            visible_at = coalesce(now() + j.delay_ms * interval '1 ms', q.visible_at),
            attempt_count = q.attempt_count - j.uncounted::int
        from judged j where j.verdict = 'ok' and q.instance_id = j.instance_id and q.id = j.id
    )
    select array_agg(j.verdict order by j.place) into outcomes from judged j;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$$;
