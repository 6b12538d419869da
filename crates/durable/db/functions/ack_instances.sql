-- Part of `commit`. Ends turns: for each, its messages go, its events are appended, its execution and status are written, and what it sends
-- out is sent. `again`: the same token came before, in this flight.
-- Outcomes: `ok`, and the instance's generation if the turn began an execution; `more` and that: the same, and messages that waited for the start are due;
-- `gone`: the lease is somebody else's or ended by an ack; `expired`: it has ended by itself; `duplicate`: an event with such an id exists; null: somebody else
-- has a row of it locked. Decided from columns of the locked lease, and from the history, which nobody but its holder appends to.
-- Arguments come in groups of arrays: the turns, whose place is their name (from 1); then what they send and change, each with its turn.
-- Locks: leases in order of their names, then activities to cancel; other rows belong to a leased instance alone.
-- Cost:  most of it is starting statements, so each part runs only if there is something for it.
create or replace function {schema}.ack_instances(
    patient boolean, instances text[], tokens uuid[], again boolean[], executions bigint[],
    first_events bigint[], last_events bigint[], event_counts integer[], events text[],
    names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[],
    status_changes boolean[], custom_statuses text[],
    work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[],
    work_sessions text[], work_items text[],
    cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[],
    message_turns integer[], message_instances text[], message_delays bigint[], message_items text[],
    clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[]
) returns text[]
language plpgsql
as $$
declare
    outcomes  text[];
    cancelled tid[];
    fine      boolean[];
    tids      tid[];
    begun     boolean;
    changed   boolean;
    ended     text[];
begin
    if patient then
        perform from {schema}.instance_locks l where l.instance_id = any (instances) order by l.instance_id for update;
        perform from (select * from unnest(cancel_instances, cancel_executions, cancel_activities) as c (instance_id, execution_id, activity_id) order by 1, 2, 3) c
        cross join lateral (select from {schema}.worker_queue q where q.instance_id = c.instance_id
                            and q.execution_id = c.execution_id and q.activity_id = c.activity_id for update) q;
    end if;
    with judged as materialized (
        select m.place, h.tid,
               case when h.instance_id is not null then
                        case when h.lock_token is distinct from m.token or m.again then 'gone'
                             when h.locked_until <= clock_timestamp() then 'expired'
                             when m.first_event <= (select y.last_event_id from {schema}.history y
                                                    where y.instance_id = m.instance_id and y.execution_id = m.execution_id
                                                    order by y.event_id desc limit 1) then 'duplicate'
                             else 'ok' end
                    when l.instance_id is null then 'gone' end as verdict,
               x.ended is null or m.name is not null as begins,
               -- Events behind the end of an execution change how many it has.
               m.status is not null or m.status_change or m.pinned is not null or coalesce(x.ended, false) and m.first_event is not null as changes
        from unnest(instances, tokens, again, executions, first_events, names, statuses, status_changes, pinned) with ordinality
             as m (instance_id, token, again, execution_id, first_event, name, status, status_change, pinned, place)
        left join lateral (select l.instance_id from {schema}.instance_locks l where l.instance_id = m.instance_id offset 0) l on true
        left join lateral (select l.instance_id, l.lock_token, l.locked_until, l.ctid as tid from {schema}.instance_locks l
                           where l.instance_id = m.instance_id for update skip locked) h on true
        left join lateral (select e.event_count is not null as ended from {schema}.executions e
                           where e.instance_id = m.instance_id and e.execution_id = m.execution_id offset 0) x on true
    )
    select array_agg(j.verdict order by j.place), array_agg(coalesce(j.verdict = 'ok', false) order by j.place), array_agg(j.tid order by j.place),
           bool_or(j.begins), bool_or(j.changes)
    into outcomes, fine, tids, begun, changed from judged j;

    if cardinality(cancel_turns) > 0 then
        with asked as materialized (
            select c.turn, q.tid, h.tid as held
            from unnest(cancel_turns, cancel_instances, cancel_executions, cancel_activities) as c (turn, instance_id, execution_id, activity_id)
            cross join lateral (select q.ctid as tid, q.id from {schema}.worker_queue q where q.instance_id = c.instance_id
                                and q.execution_id = c.execution_id and q.activity_id = c.activity_id offset 0) q
            left join lateral (select h.ctid as tid from {schema}.worker_queue h
                               where h.instance_id = c.instance_id and h.id = q.id for update skip locked) h on true
        ), stuck as (
            -- A turn whose activity somebody holds travels alone.
            select distinct a.turn from asked a where a.held is null
        )
        select array_agg(case when s.turn is null then o.outcome end order by o.place),
               array_agg(coalesce(o.outcome = 'ok' and s.turn is null, false) order by o.place),
               (select array_agg(a.held) from asked a where outcomes[a.turn] = 'ok' and a.held is not null
                and not exists (select from stuck s where s.turn = a.turn))
        into outcomes, fine, cancelled
        from unnest(outcomes) with ordinality as o (outcome, place) left join stuck s on s.turn = o.place;
        delete from {schema}.worker_queue q where q.ctid = any (cancelled);
    end if;

    if true = any (fine) then
        -- By their place in the table, which cannot change: leases are locked, and messages belong to a lease. The clock may have been set back since.
        with leases as (
            delete from {schema}.instance_locks l
            where l.ctid = any (array(select m.tid from unnest(tids, fine) as m (tid, fine) where m.fine))
            returning l.instance_id, l.message_ids, greatest(now(), l.locked_until) as latest
        ), messages as (
            delete from {schema}.orchestrator_queue q where q.ctid = any (array(
                select q.tid from leases l cross join lateral (
                    select q.ctid as tid from {schema}.orchestrator_queue q
                    where q.instance_id = l.instance_id and (q.instance_id, q.visible_at) <= (l.instance_id, l.latest) and q.id = any (l.message_ids) offset 0) q))
        )
        insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
        select m.instance_id, m.execution_id, m.first_event, m.last_event, m.event_count, m.events
        from unnest(instances, fine, executions, first_events, last_events, event_counts, events)
             as m (instance_id, fine, execution_id, first_event, last_event, event_count, events)
        where m.fine and m.first_event is not null;

        if begun then
            insert into {schema}.executions (instance_id, execution_id)
            select m.instance_id, m.execution_id from unnest(instances, fine, executions) as m (instance_id, fine, execution_id)
            where m.fine
            on conflict do nothing;

            with upserted as (
                insert into {schema}.instances as i
                    (instance_id, orchestration_name, orchestration_version, parent_instance_id, current_execution_id, pinned_version)
                select m.instance_id, m.name, m.version, m.parent, m.execution_id, m.pinned
                from unnest(instances, fine, executions, names, versions, parents, pinned)
                     as m (instance_id, fine, execution_id, name, version, parent, pinned)
                where m.fine and m.name is not null and m.version is not null
                on conflict (instance_id) do update
                set orchestration_name = excluded.orchestration_name, orchestration_version = excluded.orchestration_version,
                    status = case when excluded.current_execution_id > i.current_execution_id then 'Running' else i.status end,
                    pinned_version = case when excluded.current_execution_id > i.current_execution_id then excluded.pinned_version
                                          when excluded.current_execution_id < i.current_execution_id then i.pinned_version
                                          else coalesce(excluded.pinned_version, i.pinned_version) end,
                    current_execution_id = greatest(i.current_execution_id, excluded.current_execution_id), updated_at = now()
                returning i.instance_id, i.generation
            ), waited as (
                -- Messages that waited for the start are due: it has come.
                update {schema}.orchestrator_queue q set visible_at = now() where q.ctid = any (array(
                    select q.tid from upserted u cross join lateral (
                        select q.ctid as tid from {schema}.orchestrator_queue q
                        where q.instance_id = u.instance_id and (q.instance_id, q.visible_at) >= (u.instance_id, 'infinity') offset 0) q))
                returning q.instance_id
            )
            select array_agg(case when o.outcome <> 'ok' or u.generation is null then o.outcome
                                  when exists (select from waited w where w.instance_id = o.instance_id) then 'more ' || u.generation
                                  else 'ok ' || u.generation end order by o.place)
            into outcomes
            from unnest(outcomes, instances) with ordinality as o (outcome, instance_id, place)
            left join upserted u on u.instance_id = o.instance_id;
        end if;

        if changed or begun then
            update {schema}.instances i
            set status = case when m.execution_id < i.current_execution_id then i.status
                              when m.status is not null then m.status
                              when m.execution_id > i.current_execution_id then 'Running'
                              else i.status end,
                pinned_version = case when m.execution_id > i.current_execution_id then m.pinned
                                      when m.execution_id < i.current_execution_id then i.pinned_version
                                      else coalesce(m.pinned, i.pinned_version) end,
                current_execution_id = greatest(i.current_execution_id, m.execution_id),
                custom_status = case when m.status_change then m.custom_status else i.custom_status end,
                custom_status_version = i.custom_status_version + m.status_change::int,
                updated_at = now()
            from unnest(instances, fine, executions, pinned, statuses, status_changes, custom_statuses)
                 as m (instance_id, fine, execution_id, pinned, status, status_change, custom_status)
            cross join lateral (select k.ctid as tid from {schema}.instances k where k.instance_id = m.instance_id offset 0) k
            where m.fine and i.ctid = k.tid
              and (m.execution_id > i.current_execution_id or m.status is not null or m.status_change
                   or m.pinned is distinct from i.pinned_version and m.pinned is not null);
        end if;

        if changed then
            ended := array(select m.instance_id from unnest(instances, fine, statuses) as m (instance_id, fine, status)
                           where m.fine and m.status <> 'Running');
            update {schema}.executions e
            set status = coalesce(m.status, e.status), output = case when m.status is null then e.output else m.output end,
                completed_at = case when m.status is null then e.completed_at when m.status <> 'Running' then now() end,
                event_count = case when coalesce(m.status, e.status) <> 'Running' then
                    coalesce((select sum(h.event_count) from {schema}.history h
                              where h.instance_id = m.instance_id and h.execution_id = m.execution_id), 0) end
            from unnest(instances, fine, executions, statuses, outputs, first_events)
                 as m (instance_id, fine, execution_id, status, output, first_event)
            cross join lateral (select k.ctid as tid from {schema}.executions k
                                where k.instance_id = m.instance_id and k.execution_id = m.execution_id offset 0) k
            where m.fine and e.ctid = k.tid and (m.status is not null or e.event_count is not null and m.first_event is not null);
        end if;

        if cardinality(work_turns) > 0 then
            insert into {schema}.worker_queue (visible_at, execution_id, activity_id, lane, instance_id, session_id, work_item)
            select now() + w.place * interval '1 us', w.execution_id, w.activity_id, w.lane, w.instance_id, w.session_id, w.item
            from unnest(work_turns, work_instances, work_executions, work_activities, work_lanes, work_sessions, work_items) with ordinality
                 as w (turn, instance_id, execution_id, activity_id, lane, session_id, item, place)
            where fine[w.turn] order by w.place;
        end if;
        if cardinality(message_turns) > 0 then
            insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
            select s.instance_id, now() + s.delay_ms * interval '1 ms' + s.place * interval '1 us', s.item
            from unnest(message_turns, message_instances, message_delays, message_items) with ordinality
                 as s (turn, instance_id, delay_ms, item, place)
            where fine[s.turn] order by s.place;
        end if;

        if cardinality(clear_turns) > 0 then
            insert into {schema}.kv_delta as d (instance_id, key, value, last_updated_at_ms)
            select s.instance_id, s.key, null, (extract(epoch from now()) * 1000)::bigint
            from unnest(clear_turns) as c (turn)
            join lateral (select k.instance_id, k.key from {schema}.kv_store k where k.instance_id = instances[c.turn]
                          union select k.instance_id, k.key from {schema}.kv_delta k where k.instance_id = instances[c.turn]) s on true
            where fine[c.turn]
            on conflict (instance_id, key) do update set value = null, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
        if cardinality(key_turns) > 0 then
            insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
            select instances[k.turn], k.key, k.value, coalesce(k.at, (extract(epoch from now()) * 1000)::bigint)
            from unnest(key_turns, key_names, key_values, key_times) as k (turn, key, value, at)
            where fine[k.turn]
            on conflict (instance_id, key) do update
            set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
        -- An execution that ends leaves its keys to the next.
        if cardinality(ended) > 0 and exists (select from {schema}.kv_delta d where d.instance_id = any (ended)) then
            delete from {schema}.kv_store s using {schema}.kv_delta d
            where d.instance_id = any (ended) and d.value is null and s.instance_id = d.instance_id and s.key = d.key;
            with moved as (delete from {schema}.kv_delta d where d.instance_id = any (ended) returning d.*)
            insert into {schema}.kv_store (instance_id, key, value, last_updated_at_ms)
            select d.instance_id, d.key, d.value, d.last_updated_at_ms from moved d where d.value is not null
            on conflict (instance_id, key) do update
            set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
    end if;
    return outcomes;
end
$$;
