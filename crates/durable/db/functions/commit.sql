-- Commits what a process has finished, together: turns, activities and messages, in one transaction with one flush. Outcomes: those of the
-- turns, the activities and the messages, in that order; see ack_instances, ack_work, and `ok` for each message.
-- The settings are for the parts, which have none of their own: a plan made while the tables were small must not be the one that reads them
-- whole later.
-- Cost:  a turn or an activity alone 0.28 ms and 1 kB of WAL; 2.8 commits, 10 kB of WAL for an orchestration of 5 activities when 20 are in flight, in which
--        16 acks and messages travel. As three statements it was 7.9 commits.
create or replace function {schema}.commit(
    flight uuid, channels text[], payloads text[], patient boolean,
    instances text[], tokens uuid[], again boolean[], executions bigint[],
    first_events bigint[], last_events bigint[], event_counts integer[], events text[],
    names text[], versions text[], parents text[], pinned bigint[], statuses text[], outputs text[],
    status_changes boolean[], custom_statuses text[],
    work_turns integer[], work_instances text[], work_executions bigint[], work_activities bigint[], work_lanes text[],
    work_sessions text[], work_items text[],
    cancel_turns integer[], cancel_instances text[], cancel_executions bigint[], cancel_activities bigint[],
    message_turns integer[], message_instances text[], message_delays bigint[], message_items text[],
    clear_turns integer[], key_turns integer[], key_names text[], key_values text[], key_times bigint[],
    done_instances text[], done_ids bigint[], done_tokens uuid[], done_again boolean[], done_receivers text[], done_items text[],
    sent_instances text[], sent_delays bigint[], sent_items text[]
) returns table (outcomes text[], backend integer)
language plpgsql set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    -- Leases and activities that somebody has locked are passed by. Nobody should lock anything else; should somebody do it all the same, the
    -- flight is given up soon and its members travel alone, so that only those concerned wait.
    if not patient then
        perform set_config('lock_timeout', '1s', true);
    end if;
    outcomes := '{}';
    if cardinality(instances) > 0 then
        outcomes := {schema}.ack_instances(patient, instances, tokens, again, executions, first_events, last_events,
            event_counts, events, names, versions, parents, pinned, statuses, outputs, status_changes, custom_statuses, work_turns,
            work_instances, work_executions, work_activities, work_lanes, work_sessions, work_items, cancel_turns, cancel_instances,
            cancel_executions, cancel_activities, message_turns, message_instances, message_delays, message_items, clear_turns,
            key_turns, key_names, key_values, key_times);
    end if;
    if cardinality(done_instances) > 0 then
        outcomes := outcomes || {schema}.ack_work(patient, done_instances, done_ids, done_tokens, done_again, done_receivers, done_items);
    end if;
    if cardinality(sent_instances) > 0 then
        perform {schema}.enqueue(sent_instances, sent_delays, sent_items);
        outcomes := outcomes || array_fill('ok'::text, array[cardinality(sent_instances)]);
    end if;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
