/* required_leases */
-- The leases of these that last, one element per partition, locked so that they do so until the transaction ends; and
-- the transaction's own id. $1 leases uuid[]
-- Rows:  one: transaction text, leases uuid[], partitions bigint[], groups text[].
-- Locks: the cursors, in order; patient.
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
