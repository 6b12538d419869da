-- Part of `commit`. Ends activities, each with the message that tells its instance, if any. `again`: the same token came before, in this flight.
-- Outcomes: `ok`; `gone`: the activity was cancelled or is somebody else's; `expired`: its lease has ended; null: somebody else has the row
-- locked. Decided only from columns of the locked row.
create or replace function {schema}.ack_work(
    patient boolean, instances text[], ids bigint[], tokens uuid[], again boolean[], receivers text[], items text[]
) returns text[]
language plpgsql
as $$
declare
    outcomes text[];
    tids     tid[];
    sessions text[];
begin
    if patient then
        perform from (select * from unnest(instances, ids) as m (instance_id, id) order by m.instance_id, m.id) m
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = m.instance_id and q.id = m.id for update) q;
    end if;
    with judged as materialized (
        select a.place, h.session_id, h.tid,
               case when h.id is not null then case when h.lock_token is distinct from a.token or a.again then 'gone'
                                                    when h.locked_until <= clock_timestamp() then 'expired'
                                                    else 'ok' end
                    when q.id is null then 'gone' end as verdict
        from unnest(instances, ids, tokens, again) with ordinality as a (instance_id, id, token, again, place)
        left join lateral (select q.id from {schema}.worker_queue q where q.instance_id = a.instance_id and q.id = a.id offset 0) q on true
        left join lateral (select q.id, q.lock_token, q.locked_until, q.session_id, q.ctid as tid from {schema}.worker_queue q
                           where q.instance_id = a.instance_id and q.id = a.id for update skip locked) h on true
    )
    select array_agg(j.verdict order by j.place), array_agg(j.tid) filter (where j.verdict = 'ok'),
           array_agg(distinct j.session_id) filter (where j.verdict = 'ok' and j.session_id is not null)
    into outcomes, tids, sessions from judged j;
    if tids is not null then
        -- By their place in the table, which cannot change while they are locked. In a statement of its own: the one that locked them does not see
        -- what a renewal wrote while it began, and would leave such a row where it is.
        with ended as (
            delete from {schema}.worker_queue q where q.ctid = any (tids)
        )
        insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
        select j.receiver, now() + j.place * interval '1 us', j.item
        from unnest(outcomes, receivers, items) with ordinality as j (verdict, receiver, item, place)
        where j.verdict = 'ok' and j.item is not null order by j.place;
    end if;
    if sessions is not null then
        -- In the order of a renewal, which has several too.
        if cardinality(sessions) > 1 then
            perform from {schema}.sessions s where s.session_id = any (sessions) and s.locked_until > now() order by s.session_id for update;
        end if;
        update {schema}.sessions s set last_activity_at = now() where s.session_id = any (sessions) and s.locked_until > now();
    end if;
    return outcomes;
end
$$;
