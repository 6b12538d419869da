-- Ends messages, or refuses them: one member per partition, consumer group and lease, with its messages by the hashes of their transaction ids.
-- groups:   null: whose the lease is. leases: null: not fenced.
-- lasts:    the place of each member's last message in `hashes`, `statuses` and `errors`.
-- statuses: c: completed, with everything before it; f: failed; d: to the dead letters; r: to be read again.
-- Outcomes: null: somebody else has the cursor. Otherwise a letter for the partition (R: released, with something to read; r: released; k: still leased, or as it was;
--           p: no such partition; g: no such group) and one for each message: o: done; d: it went to the dead letters; b: an earlier one was not completed; u: not among what
--           the lease has, or the group can have; l: the lease is over. Then the group's name.
-- Locks: a cursor each, skip locked; `patient` waits. Of a partition that was read to its end its row, skip locked.
-- Decided only from columns of the locked row, and from segments, which do not change.
create or replace function {schema}.ack(
    flight uuid, channels text[], payloads text[], patient boolean,
    partitions bigint[], groups text[], leases uuid[], lasts integer[], hashes bigint[], statuses text[], errors text[]
) returns table (outcomes text[], backend integer)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    member   record;
    source   record;
    mine     record;
    message  record;
    verdicts text[];
    first    integer := 1;
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
        select p.id, p.queue_id, p.first_offset, q.retry_limit, q.retry_delay_ms, q.delayed_processing_seconds, q.window_buffer_seconds into source
        from {schema}.partition p join {schema}.queue q on q.id = p.queue_id where p.id = member.partition_id;
        if not found then
            outcomes[member.place] := 'p';
            continue;
        end if;
        -- Whose it is: a lease says so itself, while it lasts.
        select k.id, k.name into message from {schema}.consumer k
        where k.queue_id = source.queue_id and k.id = coalesce(
            (select c.consumer_id from {schema}.cursor c where c.lease_id = member.lease_id and c.partition_id = member.partition_id),
            (select g.id from {schema}.consumer g
             where g.queue_id = source.queue_id and md5(g.name) = md5(coalesce(member.group_name, '__QUEUE_MODE__'))
               and g.name = coalesce(member.group_name, '__QUEUE_MODE__')));
        if not found then
            outcomes[member.place] := 'g';
            continue;
        end if;
        if patient then
            select c.* into mine from {schema}.cursor c
            where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update;
        else
            select c.* into mine from {schema}.cursor c
            where c.partition_id = member.partition_id and c.consumer_id = message.id order by c.version desc limit 1 for update skip locked;
        end if;
        if not found then
            continue;
        end if;
        outcomes[member.place] := message.name;
        place := mine.position;
        charged := mine.retries;
        stopped := null;
        done := member.lease_id is not null and member.lease_id is distinct from mine.lease_id;
        verdicts := array_fill('u'::text, array[member.last - member.first + 1]);
        -- From where the messages can be: of a lease that is over, up to a batch before.
        low := case when done then mine.position - 10000 else mine.position end;
        low := coalesce((select max(s.first_offset) from {schema}.segment s where s.partition_id = member.partition_id and s.first_offset <= low), low);
        for message in
            select m.place, m.status, m.error, s.message_offset from unnest(hashes[member.first:member.last], statuses[member.first:member.last],
                errors[member.first:member.last]) with ordinality as m (hash, status, error, place)
            join (select h.hash, s.first_offset + h.place - 1 as message_offset from {schema}.segment s
                  cross join lateral unnest(s.hashes) with ordinality as h (hash, place)
                  where s.partition_id = member.partition_id and s.first_offset >= low
                    and s.first_offset < case when done then mine.position when mine.lease_id is null then mine.position + 10000 else mine.lease_end end
                 ) s on s.hash = m.hash
            order by s.message_offset
        loop
            verdicts[message.place] := case
                -- An ack that was heard before, or that a later one covered.
                when message.message_offset < mine.position and (not done or mine.last_lease = member.lease_id) then 'o'
                when done then 'l'
                when mine.lease_id is not null and message.message_offset >= mine.lease_end then 'u'
                when stopped is not null and message.status in ('c', 'd') then 'b'
                else 'o' end;
            continue when verdicts[message.place] <> 'o' or done or stopped is not null or message.message_offset < mine.position;
            if message.status = 'f' and charged >= source.retry_limit and message.message_offset = place then
                verdicts[message.place] := 'd';
            elsif message.status = 'd' then
                verdicts[message.place] := 'd';
            elsif message.status in ('f', 'r') then
                stopped := message.status;
                if message.status = 'f' then
                    charged := charged + 1;
                end if;
                continue;
            end if;
            if verdicts[message.place] = 'd' then
                insert into {schema}.dead_letter (queue_id, partition_id, consumer, message_offset, message_id, transaction_id, trace_id, producer,
                                                  encrypted, payload, error, retries, created_at)
                select source.queue_id, s.partition_id, outcomes[member.place], message.message_offset, s.ids[i.i], s.transaction_ids[i.i], s.trace_ids[i.i],
                       s.producers[i.i], s.encrypted, s.payloads[i.i], message.error, charged, s.created_at
                from (select * from {schema}.segment s where s.partition_id = member.partition_id and s.first_offset <= message.message_offset
                      order by s.first_offset desc limit 1) s
                cross join lateral (select (message.message_offset - s.first_offset + 1)::integer as i) i
                where s.ids[i.i] is not null;
            end if;
            place := message.message_offset + 1;
            charged := 0;
        end loop;
        if done then
            outcomes[member.place] := 'l' || array_to_string(verdicts, '') || outcomes[member.place];
            continue;
        end if;
        if stopped is not null or mine.lease_id is null or place >= mine.lease_end then
            due := case when mine.lease_id is null and stopped is null and mine.due_at > now() then mine.due_at
                        when stopped = 'f' then now() + coalesce(source.retry_delay_ms, 0) * interval '1 ms'
                        when stopped = 'r' then now()
                        else {schema}.due_after(member.partition_id, place, source.delayed_processing_seconds, source.window_buffer_seconds) end;
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
    backend := {schema}.land(flight, outcomes, channels, payloads);
    return next;
end
$$;
