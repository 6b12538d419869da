-- Makes a lease last for so many milliseconds from now, or longer if it does already; null: for as long as its queue says, a minute at least. A lease that ended counts as long as nobody else
-- has read what it held. Rows: one per partition of the lease.
create or replace function {schema}.extend(lease uuid, lease_ms bigint) returns table (partition_id bigint, until timestamptz)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
begin
    return query
    update {schema}.cursor c
    set version = c.version + 1,
        due_at = greatest(c.due_at, now() + coalesce(extend.lease_ms, (select greatest(q.lease_seconds, 60) * 1000::bigint from {schema}.consumer k
                                                                        join {schema}.queue q on q.id = k.queue_id where k.id = c.consumer_id)) * interval '1 ms')
    where c.lease_id = extend.lease
    returning c.partition_id, c.due_at;
end
$$;
