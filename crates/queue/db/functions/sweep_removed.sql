-- Removes what removed partitions have left, about `budget` rows of it. Answers how many of the partitions are done with, or null when there is nothing more to do here.
-- Locks: what it removes; partitions that somebody else sweeps are left to them.
create or replace function {schema}.sweep_removed(budget integer) returns integer
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    gone  bigint;
    taken integer;
    done  integer;
begin
    for gone in select r.partition_id from {schema}.removed_partition r order by r.partition_id limit budget for update skip locked loop
        done := coalesce(done, 0);
        delete from {schema}.segment s
        where s.partition_id = gone and s.first_offset = any (array(
            select f.first_offset from {schema}.segment f where f.partition_id = gone order by f.first_offset limit budget));
        get diagnostics taken = row_count;
        budget := budget - taken - 1;
        exit when budget <= 0;
        delete from {schema}.cursor c where c.partition_id = gone;
        delete from {schema}.removed_partition r where r.partition_id = gone;
        done := done + 1;
    end loop;
    return done;
end
$$;
