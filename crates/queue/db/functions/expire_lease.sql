-- Ends a lease that has expired, and charges the delivery to its first message that still exists. If that message was
-- delivered alone, and was redelivered `retry_limit` times before, it becomes a dead letter and the cursor moves on.
-- All messages of the lease are delivered one at a time from now on: see `suspect_until` of the table cursor. A message
-- that was delivered with others never becomes a dead letter for that delivery.
-- Answer: the cursor as it is now, due as before. Its last_lease is null exactly if a message became a dead letter. The
--         caller has locked the cursor, and leases it again in the same transaction.
-- Index:  primary keys.
create or replace function {schema}.expire_lease(own_consumer_id integer, partition_id bigint) returns {schema}.cursor
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    reader           {schema}.cursor;
    source           record;
    new_position     bigint;
    new_retries      integer;
    suspects_end     bigint;
    is_dead_lettered boolean := false;
begin
    select c.*
    into reader
    from {schema}.cursor c
    where c.partition_id = expire_lease.partition_id and c.consumer_id = own_consumer_id
    order by c.version desc
    limit 1;
    select q.id, q.retry_limit, k.name, p.first_offset
    into source
    from {schema}.consumer k
    join {schema}.queue q on q.id = k.queue_id
    join {schema}.partition p on p.id = expire_lease.partition_id
    where k.id = own_consumer_id;
    if not found or reader.lease_id is null then
        return reader;
    end if;
    suspects_end := greatest(reader.suspect_until, reader.lease_end);
    new_position := {schema}.first_undeleted(
        expire_lease.partition_id,
        greatest(reader.position, source.first_offset));
    -- A charge to a message that is gone is not passed on to the next one.
    new_retries := case
        when new_position > reader.position then (new_position < reader.suspect_until)::integer
        else reader.retries end;
    if new_position < reader.lease_end then
        if reader.lease_is_single and new_retries >= source.retry_limit then
            perform {schema}.add_dead_letter(
                source.id, expire_lease.partition_id, source.name, new_position,
                format('the lease expired without an ack; delivered %s times, retryLimit is %s',
                       new_retries + 1, source.retry_limit),
                new_retries);
            is_dead_lettered := true;
            new_position := new_position + 1;
            new_retries := (new_position < suspects_end)::integer;
        else
            new_retries := new_retries + 1;
        end if;
    end if;
    update {schema}.cursor c
    set version = c.version + 1,
        position = new_position,
        retries = new_retries,
        suspect_until = suspects_end,
        lease_id = null,
        lease_end = null,
        -- A late ack of a dead letter is refused, not taken for an ack that is sent again.
        last_lease = case when not is_dead_lettered then reader.lease_id end
    where c.partition_id = reader.partition_id
      and c.consumer_id = reader.consumer_id
      and c.version = reader.version
    returning c.* into reader;
    return reader;
end
$$;
