-- Part of `commit`. Applies finished turns: for each, removes the lease and its messages, appends the events, writes
-- execution and status, and sends what the turn sends.
--
-- Outcomes, one per turn, in order:
--   ok [generation]               applied; the instance's generation follows if the turn began an execution
--   ok_messages_due generation    likewise, and messages that waited for the start of the instance are now due
--   gone                          the token is not that of the lease: acked before, or claimed again
--   expired                       the lease has expired
--   duplicate                     the history has an event with such an id or a later one
--   null                          another transaction has locked a row of it: sent again alone, then `patient`
--
-- Outcomes are decided from the locked row of the lease, and from the history, which only the holder of the lease
-- appends to.
-- Locks: leases in order of their instances, then activities to cancel. Every other row belongs to a leased instance.
-- Rows:  locked rows are deleted by ctid, which cannot change while they are locked.
-- Cost:  mostly the start of statements, so each part runs only if there is something for it.
create or replace function {schema}.ack_instances(
    patient       boolean,
    turns         {schema}.finished_turns,
    activities    {schema}.turn_activities,
    cancellations {schema}.turn_cancellations,
    messages      {schema}.turn_messages,
    key_changes   {schema}.turn_key_changes
) returns text[]
language plpgsql
as $$
declare
    now_ms         bigint := extract(epoch from now()) * 1000;
    outcomes       text[];
    -- By position of the turn, like the outcomes.
    accepted       boolean[];
    lease_tids     tid[];
    cancelled_tids tid[];
    any_begins     boolean;
    any_changes    boolean;
    any_clears     boolean;
    ended          text[];
begin
    -- 1. A write that is sent alone waits for locks.
    if patient then
        perform from {schema}.instance_locks lease
        where lease.instance_id = any (turns.instance_ids)
        order by lease.instance_id
        for update;

        perform from (
            select * from unnest(cancellations.instance_ids, cancellations.execution_ids, cancellations.activity_ids)
                          as cancelled (instance_id, execution_id, activity_id)
            order by cancelled.instance_id, cancelled.execution_id, cancelled.activity_id
        ) as cancelled
        cross join lateral (
            select from {schema}.worker_queue activity
            where activity.instance_id = cancelled.instance_id
              and activity.execution_id = cancelled.execution_id
              and activity.activity_id = cancelled.activity_id
            for update
        ) as activity;
    end if;

    -- 2. Lock the leases and decide each turn.
    with decided as materialized (
        select turn.position,
               locked.tid,
               case
                   when locked.tid is null and lease.instance_id is not null then null
                   when locked.tid is null then 'gone'
                   when locked.lock_token is distinct from turn.lock_token or turn.repeated then 'gone'
                   when locked.locked_until <= clock_timestamp() then 'expired'
                   when turn.first_event_id <= (
                       select history.last_event_id from {schema}.history
                       where history.instance_id = turn.instance_id and history.execution_id = turn.execution_id
                       order by history.event_id desc
                       limit 1
                   ) then 'duplicate'
                   else 'ok'
               end as outcome,
               execution.has_ended is null or turn.orchestration_name is not null as begins,
               turn.status is not null
                   or turn.changes_custom_status
                   or turn.pinned_version is not null
                   -- Events after the end of an execution change its event count.
                   or coalesce(execution.has_ended, false) and turn.first_event_id is not null as changes,
               turn.clears_keys
        from unnest(
            turns.instance_ids, turns.lock_tokens, turns.repeated, turns.execution_ids, turns.first_event_ids,
            turns.orchestration_names, turns.pinned_versions, turns.statuses, turns.changes_custom_status,
            turns.clears_keys
        ) with ordinality as turn (
            instance_id, lock_token, repeated, execution_id, first_event_id,
            orchestration_name, pinned_version, status, changes_custom_status, clears_keys, position
        )
        left join lateral (
            select lease.instance_id from {schema}.instance_locks lease
            where lease.instance_id = turn.instance_id
            offset 0
        ) as lease on true
        left join lateral (
            select lease.lock_token, lease.locked_until, lease.ctid as tid from {schema}.instance_locks lease
            where lease.instance_id = turn.instance_id
            for update skip locked
        ) as locked on true
        left join lateral (
            select execution.event_count is not null as has_ended from {schema}.executions execution
            where execution.instance_id = turn.instance_id and execution.execution_id = turn.execution_id
            offset 0
        ) as execution on true
    )
    select array_agg(decided.outcome order by decided.position),
           array_agg(coalesce(decided.outcome = 'ok', false) order by decided.position),
           array_agg(decided.tid order by decided.position),
           bool_or(decided.begins),
           bool_or(decided.changes),
           bool_or(decided.clears_keys)
    into outcomes, accepted, lease_tids, any_begins, any_changes, any_clears
    from decided;

    -- 3. Cancel activities. A turn is sent again alone if another transaction has locked one of its activities.
    if cardinality(cancellations.turns) > 0 then
        with target as materialized (
            select cancelled.turn, locked.tid
            from unnest(
                cancellations.turns, cancellations.instance_ids, cancellations.execution_ids, cancellations.activity_ids
            ) as cancelled (turn, instance_id, execution_id, activity_id)
            cross join lateral (
                select activity.id from {schema}.worker_queue activity
                where activity.instance_id = cancelled.instance_id
                  and activity.execution_id = cancelled.execution_id
                  and activity.activity_id = cancelled.activity_id
                offset 0
            ) as activity
            left join lateral (
                select activity_row.ctid as tid from {schema}.worker_queue activity_row
                where activity_row.instance_id = cancelled.instance_id and activity_row.id = activity.id
                for update skip locked
            ) as locked on true
        ), postponed as (
            select distinct target.turn from target where target.tid is null
        )
        select array_agg(case when postponed.turn is null then decided.outcome end order by decided.position),
               array_agg(coalesce(decided.outcome = 'ok' and postponed.turn is null, false) order by decided.position),
               (
                   select array_agg(target.tid) from target
                   where accepted[target.turn] and target.turn not in (select postponed.turn from postponed)
               )
        into outcomes, accepted, cancelled_tids
        from unnest(outcomes) with ordinality as decided (outcome, position)
        left join postponed on postponed.turn = decided.position;

        delete from {schema}.worker_queue activity where activity.ctid = any (cancelled_tids);
    end if;

    if not true = any (accepted) then
        return outcomes;
    end if;

    -- 4. Remove the leases and their messages, and append the events. The messages were due before the lease ended, but
    --    perhaps not now: the clock may have been set back.
    with ended_leases as (
        delete from {schema}.instance_locks lease
        where lease.ctid = any (array(
            select decided.tid from unnest(lease_tids, accepted) as decided (tid, accepted) where decided.accepted
        ))
        returning lease.instance_id, lease.message_ids, greatest(now(), lease.locked_until) as latest
    ), consumed as (
        delete from {schema}.orchestrator_queue consumed
        where consumed.ctid = any (array(
            select message.tid
            from ended_leases lease
            cross join lateral (
                select message.ctid as tid from {schema}.orchestrator_queue message
                where message.instance_id = lease.instance_id
                  and (message.instance_id, message.visible_at) <= (lease.instance_id, lease.latest)
                  and message.id = any (lease.message_ids)
                offset 0
            ) as message
        ))
    )
    insert into {schema}.history (instance_id, execution_id, event_id, last_event_id, event_count, events)
    select turn.instance_id, turn.execution_id, turn.first_event_id, turn.last_event_id, turn.event_count, turn.events
    from unnest(
        accepted, turns.instance_ids, turns.execution_ids, turns.first_event_ids, turns.last_event_ids,
        turns.event_counts, turns.events
    ) as turn (accepted, instance_id, execution_id, first_event_id, last_event_id, event_count, events)
    where turn.accepted and turn.first_event_id is not null;

    -- 5. Begin executions. The messages that waited for the start of an instance become due.
    if any_begins then
        insert into {schema}.executions (instance_id, execution_id)
        select turn.instance_id, turn.execution_id
        from unnest(accepted, turns.instance_ids, turns.execution_ids) as turn (accepted, instance_id, execution_id)
        where turn.accepted
        on conflict do nothing;

        with begun as (
            insert into {schema}.instances as instance (
                instance_id, orchestration_name, orchestration_version, parent_instance_id, current_execution_id,
                pinned_version
            )
            select turn.instance_id, turn.orchestration_name, turn.orchestration_version, turn.parent_instance_id,
                   turn.execution_id, turn.pinned_version
            from unnest(
                accepted, turns.instance_ids, turns.execution_ids, turns.orchestration_names,
                turns.orchestration_versions, turns.parent_instance_ids, turns.pinned_versions
            ) as turn (
                accepted, instance_id, execution_id, orchestration_name,
                orchestration_version, parent_instance_id, pinned_version
            )
            where turn.accepted
              and turn.orchestration_name is not null
              and turn.orchestration_version is not null
            on conflict (instance_id) do update
            set orchestration_name = excluded.orchestration_name,
                orchestration_version = excluded.orchestration_version,
                status = case
                    when excluded.current_execution_id > instance.current_execution_id then 'Running'
                    else instance.status
                end,
                pinned_version = case
                    when excluded.current_execution_id > instance.current_execution_id then excluded.pinned_version
                    when excluded.current_execution_id < instance.current_execution_id then instance.pinned_version
                    else coalesce(excluded.pinned_version, instance.pinned_version)
                end,
                current_execution_id = greatest(instance.current_execution_id, excluded.current_execution_id),
                updated_at = now()
            returning instance.instance_id, instance.generation
        ), now_due as (
            update {schema}.orchestrator_queue waiting set visible_at = now()
            where waiting.ctid = any (array(
                select message.tid
                from begun
                cross join lateral (
                    select message.ctid as tid from {schema}.orchestrator_queue message
                    where message.instance_id = begun.instance_id
                      and (message.instance_id, message.visible_at) >= (begun.instance_id, 'infinity')
                    offset 0
                ) as message
            ))
            returning waiting.instance_id
        )
        select array_agg(
            case
                when turn.outcome <> 'ok' or begun.generation is null then turn.outcome
                when turn.instance_id in (select now_due.instance_id from now_due)
                    then 'ok_messages_due ' || begun.generation
                else 'ok ' || begun.generation
            end
            order by turn.position)
        into outcomes
        from unnest(outcomes, turns.instance_ids) with ordinality as turn (outcome, instance_id, position)
        left join begun on begun.instance_id = turn.instance_id;
    end if;

    -- 6. Write status, custom status and current execution of the instances that change.
    if any_begins or any_changes then
        update {schema}.instances instance
        set status = case
                when turn.execution_id < instance.current_execution_id then instance.status
                when turn.status is not null then turn.status
                when turn.execution_id > instance.current_execution_id then 'Running'
                else instance.status
            end,
            pinned_version = case
                when turn.execution_id > instance.current_execution_id then turn.pinned_version
                when turn.execution_id < instance.current_execution_id then instance.pinned_version
                else coalesce(turn.pinned_version, instance.pinned_version)
            end,
            current_execution_id = greatest(instance.current_execution_id, turn.execution_id),
            custom_status = case
                when turn.changes_custom_status then turn.custom_status
                else instance.custom_status
            end,
            custom_status_version = instance.custom_status_version + turn.changes_custom_status::int,
            updated_at = now()
        from unnest(
            accepted, turns.instance_ids, turns.execution_ids, turns.pinned_versions, turns.statuses,
            turns.changes_custom_status, turns.custom_statuses
        ) as turn (
            accepted, instance_id, execution_id, pinned_version, status,
            changes_custom_status, custom_status
        )
        cross join lateral (
            select target.ctid as tid from {schema}.instances target
            where target.instance_id = turn.instance_id
            offset 0
        ) as target
        where turn.accepted
          and instance.ctid = target.tid
          and (turn.execution_id > instance.current_execution_id
               or turn.status is not null
               or turn.changes_custom_status
               or turn.pinned_version is not null
                  and turn.pinned_version is distinct from instance.pinned_version);
    end if;

    -- 7. Write status, output and event count of the executions that end, or that got events after their end.
    if any_changes then
        update {schema}.executions execution
        set status = coalesce(turn.status, execution.status),
            output = case when turn.status is null then execution.output else turn.output end,
            completed_at = case
                when turn.status is null then execution.completed_at
                when turn.status <> 'Running' then now()
            end,
            event_count = case
                when coalesce(turn.status, execution.status) <> 'Running' then (
                    select coalesce(sum(history.event_count), 0) from {schema}.history
                    where history.instance_id = turn.instance_id and history.execution_id = turn.execution_id
                )
            end
        from unnest(
            accepted, turns.instance_ids, turns.execution_ids, turns.first_event_ids, turns.statuses, turns.outputs
        ) as turn (accepted, instance_id, execution_id, first_event_id, status, output)
        cross join lateral (
            select target.ctid as tid from {schema}.executions target
            where target.instance_id = turn.instance_id and target.execution_id = turn.execution_id
            offset 0
        ) as target
        where turn.accepted
          and execution.ctid = target.tid
          and (turn.status is not null or execution.event_count is not null and turn.first_event_id is not null);
    end if;

    -- 8. Send activities and messages, a microsecond apart, so that the order by due time is the order given.
    if cardinality(activities.turns) > 0 then
        insert into {schema}.worker_queue (
            visible_at, execution_id, activity_id, tag_queue, instance_id, session_id, work_item
        )
        select now() + activity.position * interval '1 us', activity.execution_id, activity.activity_id,
               activity.tag_queue, activity.instance_id, activity.session_id, activity.work_item
        from unnest(
            activities.turns, activities.instance_ids, activities.execution_ids, activities.activity_ids,
            activities.tag_queues, activities.session_ids, activities.work_items
        ) with ordinality as activity (
            turn, instance_id, execution_id, activity_id, tag_queue, session_id, work_item, position
        )
        where accepted[activity.turn]
        order by activity.position;
    end if;
    if cardinality(messages.turns) > 0 then
        insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
        select message.instance_id,
               now() + message.delay_ms * interval '1 ms' + message.position * interval '1 us',
               message.work_item
        from unnest(messages.turns, messages.instance_ids, messages.delays_ms, messages.work_items) with ordinality
             as message (turn, instance_id, delay_ms, work_item, position)
        where accepted[message.turn]
        order by message.position;
    end if;

    -- 9. Change keys. Clearing removes every key from before the turn; then the keys that the turn set are written.
    if any_clears then
        insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
        select existing.instance_id, existing.key, null, now_ms
        from unnest(accepted, turns.instance_ids, turns.clears_keys) as turn (accepted, instance_id, clears_keys)
        cross join lateral (
            select stored.instance_id, stored.key from {schema}.kv_store stored
            where stored.instance_id = turn.instance_id
            union
            select changed.instance_id, changed.key from {schema}.kv_delta changed
            where changed.instance_id = turn.instance_id
        ) as existing
        where turn.accepted and turn.clears_keys
        on conflict (instance_id, key) do update
        set value = null, last_updated_at_ms = excluded.last_updated_at_ms;
    end if;
    if cardinality(key_changes.turns) > 0 then
        insert into {schema}.kv_delta (instance_id, key, value, last_updated_at_ms)
        select change.instance_id, change.key, change.value, coalesce(change.last_updated_at_ms, now_ms)
        from unnest(
            key_changes.turns, key_changes.instance_ids, key_changes.keys, key_changes.values,
            key_changes.last_updated_at_ms
        ) as change (turn, instance_id, key, value, last_updated_at_ms)
        where accepted[change.turn]
        on conflict (instance_id, key) do update
        set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
    end if;

    -- 10. The key changes of an execution that has ended move to the store.
    if any_changes then
        ended := array(
            select turn.instance_id
            from unnest(accepted, turns.instance_ids, turns.statuses) as turn (accepted, instance_id, status)
            where turn.accepted and turn.status <> 'Running'
        );
        if exists (select from {schema}.kv_delta changed where changed.instance_id = any (ended)) then
            delete from {schema}.kv_store stored
            using {schema}.kv_delta changed
            where changed.instance_id = any (ended)
              and changed.value is null
              and stored.instance_id = changed.instance_id
              and stored.key = changed.key;

            with moved as (
                delete from {schema}.kv_delta changed
                where changed.instance_id = any (ended)
                returning changed.*
            )
            insert into {schema}.kv_store (instance_id, key, value, last_updated_at_ms)
            select moved.instance_id, moved.key, moved.value, moved.last_updated_at_ms
            from moved
            where moved.value is not null
            on conflict (instance_id, key) do update
            set value = excluded.value, last_updated_at_ms = excluded.last_updated_at_ms;
        end if;
    end if;
    return outcomes;
end
$$;
