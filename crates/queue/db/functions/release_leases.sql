-- Releases leases whose messages were not delivered: due again now, with no retry charged.
create or replace function {schema}.release_leases(lease_ids uuid[]) returns void
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set jit = off
    set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off
as $$
begin
    update {schema}.cursor c
    set version = c.version + 1,
        due_at = now(),
        lease_id = null,
        lease_end = null
    where c.lease_id = any (lease_ids);
end
$$;
