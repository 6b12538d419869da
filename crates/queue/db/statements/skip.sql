/* skip */
-- Moves cursors to the next message that is not deleted; the retries of a deleted message do not count. A lease without
-- messages ends.
-- $1 leases uuid[]
update {schema}.cursor c
set version = c.version + 1, position = n.position, retries = (n.position < c.suspect_until)::integer,
    lease_id = case when n.position < c.lease_end then c.lease_id end, lease_end = case
        when n.position < c.lease_end then c.lease_end end,
    due_at = case when n.position < c.lease_end then c.due_at else now() end
from (select c.partition_id, c.consumer_id, c.version, {schema}.first_undeleted(c.partition_id, c.position) as position
      from {schema}.cursor c where c.lease_id = any ($1::uuid[])) n
where c.partition_id = n.partition_id and c.consumer_id = n.consumer_id and c.version = n.version
    and n.position > c.position
