-- Commits a batch in one transaction: finished turns, then finished activities, then messages. Each part is applied as
-- its own function says, and only if there is something for it.
-- Outcomes: one per write, in this order: those of `ack_instances`, those of `ack_work`, and `ok` for each message.
-- Locks: leases and activities that another transaction has locked are skipped. No other row should be locked; if one
--        is, the batch fails after a second and its writes are sent alone, so that only those concerned wait.
create or replace function {schema}.commit(
    batch_id            uuid,
    channels            text[],
    payloads            text[],
    patient             boolean,
    turns               {schema}.finished_turns,
    activities          {schema}.turn_activities,
    cancellations       {schema}.turn_cancellations,
    turn_messages       {schema}.turn_messages,
    key_changes         {schema}.turn_key_changes,
    finished_activities {schema}.finished_activities,
    messages            {schema}.orchestration_messages
) returns table (outcomes text[], backend integer)
language plpgsql
set search_path = reveille_own
{index_plans}
as $$
begin
    if not patient then
        perform set_config('lock_timeout', '1s', true);
    end if;
    outcomes := '{}';
    if cardinality(turns.instance_ids) > 0 then
        outcomes := {schema}.ack_instances(
            patient, turns, activities, cancellations, turn_messages, key_changes);
    end if;
    if cardinality(finished_activities.ids) > 0 then
        outcomes := outcomes || {schema}.ack_work(patient, finished_activities);
    end if;
    if cardinality(messages.instance_ids) > 0 then
        perform {schema}.enqueue(messages);
        outcomes := outcomes || array_fill('ok'::text, array[cardinality(messages.instance_ids)]);
    end if;
    backend := {schema}.finish_batch(batch_id, outcomes, channels, payloads);
    return next;
end
$$;
