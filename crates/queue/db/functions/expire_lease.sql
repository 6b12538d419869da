-- Ends a lease that has expired, and charges the delivery to its first message that is still there. If that message was
-- delivered alone and was delivered again `retry_limit` times before, it goes to the dead letters and the cursor moves
-- on.
-- Everything that the lease held is delivered one at a time from now on: see `suspect_until` in
-- migrations/0003_deliveries.sql.
-- A message that was delivered with others is never a dead letter for that delivery.
-- Rows:  the cursor as it is now, due as before. It is locked by the caller, in the same transaction that leases it
--        again. Its last lease is null exactly if its message went to the dead letters.
-- Index: primary keys.
create or replace function {schema}.expire_lease(own integer, partition_id bigint) returns {schema}.cursor
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    mine     {schema}.cursor;
    source   record;
    place    bigint;
    charged  integer;
    suspects bigint;
    buried   boolean := false;
begin
    select c.* into mine from {schema}.cursor c
    where c.partition_id = expire_lease.partition_id and c.consumer_id = own order by c.version desc limit 1;
    select q.id, q.retry_limit, k.name, p.first_offset into source
    from {schema}.consumer k
    join {schema}.queue q on q.id = k.queue_id
    join {schema}.partition p on p.id = expire_lease.partition_id
    where k.id = own;
    if not found or mine.lease_id is null then
        return mine;
    end if;
    suspects := greatest(mine.suspect_until, mine.lease_end);
    place := {schema}.first_live(expire_lease.partition_id, greatest(mine.position, source.first_offset));
    -- What was charged to a message that is gone is not charged to the next one.
    charged := case when place > mine.position then (place < mine.suspect_until)::integer else mine.retries end;
    if place < mine.lease_end then
        if mine.lease_is_single and charged >= source.retry_limit then
            perform {schema}.bury(
                source.id, expire_lease.partition_id, source.name, place,
                format('the lease expired without an ack; delivered %s times, retryLimit is %s', charged + 1, source.retry_limit),
                charged);
            buried := true;
            place := place + 1;
            charged := (place < suspects)::integer;
        else
            charged := charged + 1;
        end if;
    end if;
    update {schema}.cursor c
    set version = c.version + 1, position = place, retries = charged, suspect_until = suspects,
        -- An ack of a dead letter that comes late is refused, not taken for one that was heard before.
        lease_id = null, lease_end = null, last_lease = case when not buried then mine.lease_id end
    where c.partition_id = mine.partition_id and c.consumer_id = mine.consumer_id and c.version = mine.version
    returning c.* into mine;
    return mine;
end
$$;
