-- Ends activities, each with the message that tells its instance, if any. Outcomes: `ok`; `gone`: the activity was cancelled or is somebody
-- else's; `expired`: its lease has ended; null: somebody else has the row locked.
create or replace function {schema}.ack_work(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], ids bigint[], tokens uuid[], receivers text[], items text[]
) returns table (outcomes text[], backend integer)
language plpgsql
    set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
as $$
declare
    held bigint[];
begin
    -- Lock first, in order; decide next, by another statement, which sees what the lock waited for.
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
        from unnest(instances, ids, tokens, receivers, items) with ordinality as m (instance_id, id, token, receiver, item, place)
    ), judged as materialized (
        select a.*, q.session_id,
               case when q.id is null then 'gone'
                    when not q.id = any (held) then null
                    when q.lock_token is distinct from a.token or not a.first then 'gone'
                    when q.locked_until <= clock_timestamp() then 'expired'
                    else 'ok' end as verdict
        from asked a left join {schema}.worker_queue q on q.instance_id = a.instance_id and q.id = a.id
    ), ended as (
        delete from {schema}.worker_queue q using judged j
        where j.verdict = 'ok' and q.instance_id = j.instance_id and q.id = j.id
    ), told as (
        insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
        select j.receiver, now() + j.place * interval '1 us', j.item from judged j
        where j.verdict = 'ok' and j.item is not null order by j.place
    ), used as (
        update {schema}.sessions s set last_activity_at = now()
        from (select distinct j.session_id from judged j where j.verdict = 'ok' and j.session_id is not null) j
        where s.session_id = j.session_id and s.locked_until > now()
    )
    select array_agg(j.verdict order by j.place) into outcomes from judged j;
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$$;
