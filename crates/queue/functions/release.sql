-- Gives partitions back that nobody took: due as before, nothing charged. Those consumed as they were read go back to where they were, unless somebody has read on.
create or replace function {schema}.release(leases uuid[], partitions bigint[], consumers integer[], versions bigint[], positions bigint[]) returns void
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    update {schema}.cursor c set version = c.version + 1, due_at = now(), lease_id = null, lease_end = null
    where c.lease_id = any (leases);
    update {schema}.cursor c set version = c.version + 1, due_at = now(), position = n.position
    from unnest(partitions, consumers, versions, positions) as n (partition_id, consumer_id, version, position)
    where c.partition_id = n.partition_id and c.consumer_id = n.consumer_id and c.version = n.version;
end
$$;
