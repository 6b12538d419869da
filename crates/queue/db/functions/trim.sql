-- Removes messages from the front of partitions: whole segments, of which everything lies before `uptos`, at most `segments` of each partition.
-- patient: waits for who is pushing; otherwise such a partition is left as it is.
-- Rows:  one per partition that lost something: how many messages, and whether there is more to remove. Of one that was left as it is: none, and more.
-- Locks: the partitions, in order. Cursors that point before what is left are not touched: who reads there goes on with the first message that is left.
create or replace function {schema}.trim(partitions bigint[], uptos bigint[], segments integer, patient boolean)
returns table (partition_id bigint, messages bigint, more boolean)
language plpgsql volatile set search_path = reveille_own set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_bitmapscan = off
as $$
#variable_conflict use_column
declare
    task  record;
    own   bigint;
    floor bigint;
    edge  bigint;
    taken integer;
begin
    for task in select n.id, n.upto from unnest(partitions, uptos) as n (id, upto) order by n.id loop
        if patient then
            select p.first_offset into floor from {schema}.partition p where p.id = task.id for no key update;
        else
            select p.first_offset into floor from {schema}.partition p where p.id = task.id for no key update skip locked;
            if not found and exists (select from {schema}.partition p where p.id = task.id) then
                return query select task.id, 0::bigint, true;
                continue;
            end if;
        end if;
        continue when not found;
        select max(f.next_offset), count(*) into edge, taken from (
            select s.next_offset from {schema}.segment s where s.partition_id = task.id and s.first_offset < task.upto order by s.first_offset limit segments) f
        where f.next_offset <= task.upto;
        continue when edge is null;
        delete from {schema}.segment s where s.partition_id = task.id and s.first_offset < edge;
        update {schema}.partition p set first_offset = edge where p.id = task.id;
        partition_id := task.id;
        messages := edge - floor;
        more := taken = segments;
        return next;
    end loop;
end
$$;
