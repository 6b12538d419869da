/* required_leases */
-- Those of the leases that have not expired, one element per partition, locked until the transaction ends; and the id
-- of the transaction.
-- $1 leases uuid[]
-- Rows:  one: transaction text, leases uuid[], partitions bigint[], groups text[].
-- Locks: the cursors, in order; waits for them.
-- Index: cursor_lease.
with held as materialized (
    select c.lease_id, c.partition_id, k.name
    from {schema}.cursor c join {schema}.consumer k on k.id = c.consumer_id
    where c.lease_id = any ($1::uuid[]) and c.due_at > clock_timestamp()
    order by c.partition_id, c.consumer_id for update of c
)
select pg_current_xact_id()::text,
       array(select h.lease_id from held h order by h.partition_id, h.name),
       array(select h.partition_id from held h order by h.partition_id, h.name),
       array(select h.name from held h order by h.partition_id, h.name)
