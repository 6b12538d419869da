-- Gives partitions back that nobody took: due as before, nothing charged.
create or replace function {schema}.release(leases uuid[]) returns void
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off
as $$
begin
    update {schema}.cursor c set version = c.version + 1, due_at = now(), lease_id = null, lease_end = null
    where c.lease_id = any (leases);
end
$$;
