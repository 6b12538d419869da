-- Extends a lease to `lease_ms` milliseconds from now; never shortens it. null: as long as its queue says, and a minute
-- at least. A lease that has expired can be extended until its messages are delivered again.
-- Rows:  one per partition of the lease.
create or replace function {schema}.extend_lease(lease uuid, lease_ms bigint)
returns table (partition_id bigint, expires_at timestamptz)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
begin
    return query
    update {schema}.cursor c
    set version = c.version + 1,
        due_at = greatest(
            c.due_at,
            now() + interval '1 ms' * coalesce(
                extend_lease.lease_ms,
                (select greatest(q.lease_seconds, 60) * 1000::bigint
                 from {schema}.consumer k
                 join {schema}.queue q on q.id = k.queue_id
                 where k.id = c.consumer_id)))
    where c.lease_id = extend_lease.lease
    returning c.partition_id, c.due_at;
end
$$;
