-- Ends messages, or refuses them: one member per partition, consumer group and lease, with its messages by the hashes
-- of their transaction ids.
-- groups:   null: whose the lease is. leases: null: not fenced.
-- lasts:    the place of each member's last message in `hashes`, `statuses` and `errors`.
-- statuses: c: completed, with everything before it; f: failed; d: to the dead letters; r: to be read again.
-- Outcomes: null: somebody else has the cursor. Otherwise a letter for the partition (R: released, with something to
--           read; r: released; k: still leased, or as it was;
--           p: no such partition; g: no such group) and one for each message: o: done; d: it went to the dead letters;
--           b: an earlier one was not completed; u: not among what
--           the lease has, or the group can have; l: the lease is over. Then the group's name.
-- Locks: a cursor each, skip locked; `patient` waits. Of a partition that was read to its end its row, skip locked.
-- Index: cursor_lease, for which the partition's number is hidden from the planner: see functions/finish.sql.
-- Decided only from columns of the locked row, and from segments, which do not change.
-- Cost:  100 us a member, 6 us more for each ten messages. Ending all members together by a few large statements was as
--        slow for four and a third faster for fifty.
create or replace function {schema}.ack(
    flight uuid, channels text[], payloads text[], patient boolean,
    partitions bigint[], groups text[], leases uuid[], lasts integer[], hashes bigint[], statuses text[], errors text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off set jit = off
as $$
#variable_conflict use_column
declare
    member   record;
    mine     record;
    message  record;
    verdicts text[];
    low      bigint;
    place    bigint;
    charged  integer;
    stopped  text;
    done     boolean;
    due      timestamptz;
begin
    outcomes := array_fill(null::text, array[cardinality(partitions)]);
    for member in
        select m.*, coalesce(lag(m.last) over (order by m.place), 0) + 1 as first
        from unnest(partitions, groups, leases, lasts) with ordinality as m (partition_id, group_name, lease_id, last, place) order by m.place
    loop
        if patient and member.lease_id is not null then
            perform from {schema}.cursor c where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id for update;
        end if;
        -- A lease says itself whose it is, while it lasts.
        select c.*, k.name, q.id as queue_id, q.retry_limit, q.retry_delay_ms, q.delayed_processing_seconds, q.window_buffer_seconds into mine
        from {schema}.cursor c
        join {schema}.consumer k on k.id = c.consumer_id
        join {schema}.queue q on q.id = k.queue_id
        where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id for update of c skip locked;
        if not found then
            continue when not patient and exists (
                select from {schema}.cursor c join {schema}.consumer k on k.id = c.consumer_id
                where c.lease_id = member.lease_id and c.partition_id + 0 = member.partition_id);
            select p.queue_id, k.id, k.name, q.retry_limit, q.retry_delay_ms, q.delayed_processing_seconds, q.window_buffer_seconds into message
            from {schema}.partition p
            join {schema}.queue q on q.id = p.queue_id
            left join {schema}.consumer k on k.queue_id = q.id and case
                -- A lease that was the last says whose it was.
                when member.group_name is null and member.lease_id is not null then k.id = (
                    select c.consumer_id from {schema}.cursor c where c.partition_id = p.id and c.last_lease = member.lease_id order by c.version desc limit 1)
                else md5(k.name) = md5(coalesce(member.group_name, '__QUEUE_MODE__')) and k.name = coalesce(member.group_name, '__QUEUE_MODE__') end
            where p.id = member.partition_id;
            if message.id is null then
                outcomes[member.place] := case when not found then 'p' when member.lease_id is null then 'g'
                                               else 'l' || repeat('l', member.last - member.first + 1) end;
                continue;
            end if;
            if patient then
                perform from {schema}.cursor c
                where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update;
            end if;
            select c.*, message.name, message.queue_id, message.retry_limit, message.retry_delay_ms, message.delayed_processing_seconds,
                   message.window_buffer_seconds into mine
            from {schema}.cursor c
            where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update skip locked;
            if not found then
                outcomes[member.place] := case when patient then 'g' end;
                continue;
            end if;
        end if;
        outcomes[member.place] := mine.name;
        place := mine.position;
        charged := mine.retries;
        stopped := null;
        done := member.lease_id is not null and member.lease_id is distinct from mine.lease_id;
        verdicts := array_fill('u'::text, array[member.last - member.first + 1]);
        -- From where the messages can be: of a lease that is over, up to a batch before.
        low := case when done then mine.position - 10000 else mine.position end;
        for message in
            select m.* from unnest(
                statuses[member.first:member.last], errors[member.first:member.last],
                {schema}.locate(member.partition_id, low,
                                case when mine.lease_id is null then mine.position + 10000 when done then mine.position else mine.lease_end end,
                                hashes[member.first:member.last])) with ordinality as m (status, error, message_offset, place)
            where m.message_offset is not null order by m.message_offset
        loop
            verdicts[message.place] := case
                -- An ack that was heard before, or that a later one covered.
                when message.message_offset < mine.position and case when done then mine.last_lease = member.lease_id
                                                                     else message.status in ('c', 'd') end then 'o'
                -- Or one that let the messages come again, which nobody has read since.
                when done and message.status in ('f', 'r') and mine.last_lease = member.lease_id and mine.lease_id is null then 'o'
                when done then 'l'
                when message.message_offset < mine.position or mine.lease_id is not null and message.message_offset >= mine.lease_end then 'u'
                when stopped is not null and message.status in ('c', 'd') then 'b'
                else 'o' end;
            continue when verdicts[message.place] <> 'o' or done or stopped is not null or message.message_offset < mine.position;
            if message.status = 'f' and charged >= mine.retry_limit and {schema}.first_live(member.partition_id, place) >= message.message_offset then
                verdicts[message.place] := 'd';
            elsif message.status = 'd' then
                verdicts[message.place] := 'd';
            elsif message.status in ('f', 'r') then
                stopped := message.status;
                if message.status = 'f' then
                    charged := charged + 1;
                    -- Not at what was deleted before it: what is charged is charged to the first that is read.
                    place := greatest(place, least({schema}.first_live(member.partition_id, place), message.message_offset));
                end if;
                continue;
            end if;
            if verdicts[message.place] = 'd' then
                perform {schema}.bury(mine.queue_id, member.partition_id, outcomes[member.place], message.message_offset, message.error, charged);
            end if;
            place := message.message_offset + 1;
            -- What lay in a lease that expired was delivered once, see functions/expire_lease.sql.
            charged := (place < mine.suspect_until)::integer;
        end loop;
        if done then
            outcomes[member.place] := 'l' || array_to_string(verdicts, '') || outcomes[member.place];
            continue;
        end if;
        if 'u' = any (verdicts) then
            -- Said again because the answer was lost: what is done is done. The segments before are read only for such.
            select array_agg(case when m.verdict = 'u' and m.status in ('c', 'd') and m.message_offset < mine.position then 'o' else m.verdict end order by m.place)
            into verdicts
            from unnest(verdicts, statuses[member.first:member.last],
                        {schema}.locate(member.partition_id, mine.position - 10000, mine.position, hashes[member.first:member.last]))
                 with ordinality as m (verdict, status, message_offset, place);
        end if;
        if mine.lease_id = member.lease_id and 'u' = any (verdicts) then
            select p.first_offset into low from {schema}.partition p where p.id = member.partition_id;
            if low > mine.position then
                -- They were removed while somebody had them: they are done.
                verdicts := array_replace(verdicts, 'u', 'o');
                place := case when stopped is null then greatest(place, least(low, mine.lease_end)) else place end;
            end if;
        end if;
        if mine.lease_id is null and stopped is null and place = mine.position then
            -- Nothing changes. A cursor that has read everything must not be touched without the partition's lock.
            outcomes[member.place] := 'k' || array_to_string(verdicts, '') || outcomes[member.place];
            continue;
        end if;
        if stopped is null and place > mine.position and place < mine.lease_end and {schema}.first_live(member.partition_id, place) >= mine.lease_end then
            -- What is left of the lease was deleted.
            place := mine.lease_end;
        end if;
        if stopped is not null or mine.lease_id is null or place >= mine.lease_end then
            due := case when mine.lease_id is null and stopped is null and mine.due_at > now() then mine.due_at
                        when stopped = 'f' then now() + coalesce(mine.retry_delay_ms, 0) * interval '1 ms'
                        when stopped = 'r' then now()
                        else {schema}.due_after(member.partition_id, place, mine.delayed_processing_seconds, mine.window_buffer_seconds) end;
            update {schema}.cursor c
            set version = c.version + 1, position = place, retries = charged, due_at = due, lease_id = null, lease_end = null,
                last_lease = coalesce(mine.lease_id, mine.last_lease)
            where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
            outcomes[member.place] := case when due < 'infinity' then 'R' else 'r' end || array_to_string(verdicts, '') || outcomes[member.place];
        else
            if place > mine.position then
                update {schema}.cursor c set version = c.version + 1, position = place, retries = charged
                where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version;
            end if;
            outcomes[member.place] := 'k' || array_to_string(verdicts, '') || outcomes[member.place];
        end if;
    end loop;
    backend := {schema}.finish_batch(flight, outcomes, channels, payloads);
    return next;
end
$$;
