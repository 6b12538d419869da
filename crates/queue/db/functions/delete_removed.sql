-- Deletes messages and cursors of removed partitions, about `max_rows` rows. Answer: the number of partitions that are
-- gone completely; null: there was nothing to delete.
-- Locks: what it deletes; partitions that another server is deleting are skipped.
create or replace function {schema}.delete_removed(max_rows integer) returns integer
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan
    set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    removed  bigint;
    deleted  integer;
    finished integer;
begin
    for removed in
        select r.partition_id
        from {schema}.removed_partition r
        order by r.partition_id
        limit max_rows
        for update skip locked
    loop
        finished := coalesce(finished, 0);
        delete from {schema}.segment s
        where s.partition_id = removed
          and s.first_offset = any (array(
              select first.first_offset
              from {schema}.segment first
              where first.partition_id = removed
              order by first.first_offset
              limit max_rows));
        get diagnostics deleted = row_count;
        max_rows := max_rows - deleted - 1;
        exit when max_rows <= 0;
        delete from {schema}.cursor c where c.partition_id = removed;
        delete from {schema}.removed_partition r where r.partition_id = removed;
        finished := finished + 1;
    end loop;
    return finished;
end
$$;
