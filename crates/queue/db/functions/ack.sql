-- Acks messages. Each ack is for one partition, consumer group and lease.
-- Per ack:     partitions; group_names and lease_ids, see functions/lock_acked_cursor.sql; last_messages: the index of
--              its last message in the three arrays that follow.
-- Per message: hashes of the transaction ids; statuses: `completed` (with all messages before it), `failed`,
--              `dead_letter`, or `retry` (deliver again, not charged); errors.
-- Rows:  one per ack, in order.
--        status:   `released`: the partition is free for the group. `kept`: it is still leased, or nothing changed.
--                  `lease_over`. `no_partition`. `no_group`. `busy`: the cursor is locked, and nothing was done.
--        has_more: the group has something to read, now or at a known time.
--        messages: `acked`, `dead_lettered`, `behind_failure` (an earlier message of this ack was not completed),
--                  `not_delivered` (not among the messages of the lease, or that the group can read), or `lease_over`.
-- Locks: one cursor per ack, skip locked; `patient` waits. If a partition was read to its end, its row, skip locked.
--        Everything is decided from the locked row and from segments, which do not change.
-- Cost:  100 us per ack, 6 us more for each ten messages. A few large statements for all acks together were as slow for
--        four acks and a third faster for fifty.
create or replace function {schema}.ack(
    batch_id uuid, channels text[], payloads text[], patient boolean,
    partitions bigint[], group_names text[], lease_ids uuid[], last_messages integer[],
    hashes bigint[], statuses text[], errors text[]
) returns table (status text, has_more boolean, consumer text, messages text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    request      record;
    reader       {schema}.acked_cursor;
    message      record;
    -- The ack names a lease that the cursor no longer has.
    is_over      boolean;
    -- The cursor after this ack.
    new_position bigint;
    new_retries  integer;
    new_due_at   timestamptz;
    -- The status that stopped the ack: `failed` or `retry`.
    stopped_by   text;
    first_kept   bigint;
    -- The longest batch: no ack is for messages further from the cursor.
    batch_max    constant bigint := 10000;
begin
    backend := pg_backend_pid();
    for request in
        select a.*, coalesce(lag(a.last_message) over (order by a.number), 0) + 1 as first_message
        from unnest(partitions, group_names, lease_ids, last_messages) with ordinality
            as a (partition_id, group_name, lease_id, last_message, number)
        order by a.number
    loop
        -- Lock the cursor.
        reader := {schema}.lock_acked_cursor(request.partition_id, request.group_name, request.lease_id, patient);
        consumer := reader.consumer;
        has_more := false;
        messages := array_fill(
            case when reader.problem = 'lease_over' then 'lease_over' else 'not_delivered' end,
            array[request.last_message - request.first_message + 1]);
        if reader.problem is not null then
            status := reader.problem;
            return next;
            continue;
        end if;
        is_over := request.lease_id is not null and request.lease_id is distinct from reader.lease_id;
        new_position := reader.position;
        new_retries := reader.retries;
        stopped_by := null;

        -- Decide about each message that is found, in order of offsets.
        for message in
            select m.*
            from unnest(
                statuses[request.first_message : request.last_message],
                errors[request.first_message : request.last_message],
                {schema}.find_offsets(
                    request.partition_id,
                    case when is_over then reader.position - batch_max else reader.position end,
                    case when reader.lease_id is null then reader.position + batch_max
                         when is_over then reader.position
                         else reader.lease_end end,
                    hashes[request.first_message : request.last_message])
            ) with ordinality as m (status, error, message_offset, number)
            where m.message_offset is not null
            order by m.message_offset
        loop
            messages[message.number] := case
                -- Acked before, or covered by a later ack.
                when message.message_offset < reader.position
                     and case when is_over then reader.last_lease = request.lease_id
                              else message.status in ('completed', 'dead_letter') end then 'acked'
                -- The same ack released the messages before, and they were not delivered since.
                when is_over and message.status in ('failed', 'retry')
                     and reader.last_lease = request.lease_id and reader.lease_id is null then 'acked'
                when is_over then 'lease_over'
                when message.message_offset < reader.position
                     or reader.lease_id is not null and message.message_offset >= reader.lease_end then 'not_delivered'
                when stopped_by is not null and message.status in ('completed', 'dead_letter') then 'behind_failure'
                else 'acked' end;
            continue when messages[message.number] <> 'acked'
                or is_over or stopped_by is not null or message.message_offset < reader.position;
            if message.status = 'dead_letter'
               or message.status = 'failed' and new_retries >= reader.retry_limit
                  and {schema}.first_undeleted(request.partition_id, new_position) >= message.message_offset then
                messages[message.number] := 'dead_lettered';
                perform {schema}.add_dead_letter(reader.queue_id, request.partition_id, reader.consumer,
                                                 message.message_offset, message.error, new_retries);
            elsif message.status in ('failed', 'retry') then
                stopped_by := message.status;
                if message.status = 'failed' then
                    new_retries := new_retries + 1;
                    -- Skip deleted messages before it: the charge is to the first message that is delivered again.
                    new_position := greatest(new_position, least(
                        {schema}.first_undeleted(request.partition_id, new_position), message.message_offset));
                end if;
                continue;
            end if;
            new_position := message.message_offset + 1;
            -- A message from an expired lease was delivered once: see functions/expire_lease.sql.
            new_retries := (new_position < reader.suspect_until)::integer;
        end loop;

        if is_over then
            status := 'lease_over';
            messages := array_replace(messages, 'not_delivered', 'lease_over');
            -- The wake-up of the ack that counted may have been lost with its answer.
            has_more := 'acked' = any (messages);
            return next;
            continue;
        end if;
        if 'not_delivered' = any (messages) then
            -- An ack sent again finds its messages before the cursor. Only then are the segments there read.
            select array_agg(
                case when m.outcome = 'not_delivered' and m.status in ('completed', 'dead_letter')
                          and m.message_offset < reader.position then 'acked'
                     else m.outcome end
                order by m.number)
            into messages
            from unnest(
                messages,
                statuses[request.first_message : request.last_message],
                {schema}.find_offsets(request.partition_id, reader.position - batch_max, reader.position,
                                      hashes[request.first_message : request.last_message])
            ) with ordinality as m (outcome, status, message_offset, number);
        end if;
        if reader.lease_id = request.lease_id and 'not_delivered' = any (messages) then
            select p.first_offset into first_kept from {schema}.partition p where p.id = request.partition_id;
            if first_kept > reader.position then
                -- Retention removed them during the lease: they count as acked.
                messages := array_replace(messages, 'not_delivered', 'acked');
                if stopped_by is null then
                    new_position := greatest(new_position, least(first_kept, reader.lease_end));
                end if;
            end if;
        end if;

        -- Move the cursor.
        if reader.lease_id is null and stopped_by is null and new_position = reader.position then
            -- Nothing changes. A cursor with everything read must not be updated without the partition's lock.
            status := 'kept';
            return next;
            continue;
        end if;
        if stopped_by is null and new_position > reader.position and new_position < reader.lease_end
           and {schema}.first_undeleted(request.partition_id, new_position) >= reader.lease_end then
            -- The rest of the lease was deleted.
            new_position := reader.lease_end;
        end if;
        if stopped_by is not null or reader.lease_id is null or new_position >= reader.lease_end then
            new_due_at := case
                when reader.lease_id is null and stopped_by is null and reader.due_at > now() then reader.due_at
                when stopped_by = 'failed' then now() + coalesce(reader.retry_delay_ms, 0) * interval '1 ms'
                when stopped_by = 'retry' then now()
                else {schema}.due_after(request.partition_id, new_position,
                                        reader.delayed_processing_seconds, reader.window_buffer_seconds) end;
            update {schema}.cursor c
            set version = c.version + 1,
                position = new_position,
                retries = new_retries,
                due_at = new_due_at,
                lease_id = null,
                lease_end = null,
                last_lease = coalesce(reader.lease_id, reader.last_lease)
            where c.partition_id = reader.partition_id
              and c.consumer_id = reader.consumer_id
              and c.version = reader.version;
            status := 'released';
            has_more := new_due_at < 'infinity';
        else
            if new_position > reader.position then
                update {schema}.cursor c
                set version = c.version + 1,
                    position = new_position,
                    retries = new_retries
                where c.partition_id = reader.partition_id
                  and c.consumer_id = reader.consumer_id
                  and c.version = reader.version;
            end if;
            status := 'kept';
        end if;
        return next;
    end loop;
    perform {schema}.finish_batch(batch_id, array[]::text[], channels, payloads);
end
$$;
