-- Sends messages to instances, each due after its delay. Does not notify: see `notify` and `finish_batch`.
-- Locks: none. Senders to the same instance do not block each other, and a running turn of it is not affected.
create or replace function {schema}.enqueue(messages {schema}.orchestration_messages) returns void
language plpgsql
set search_path = reveille_own
as $$
begin
    -- A microsecond apart, so that the order by due time is the order given.
    insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
    select message.instance_id,
           now() + message.delay_ms * interval '1 ms' + message.position * interval '1 us',
           message.work_item
    from unnest(messages.instance_ids, messages.delays_ms, messages.work_items) with ordinality
         as message (instance_id, delay_ms, work_item, position)
    order by message.position;
end
$$;
