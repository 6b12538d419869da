-- Removes a queue: it, its partitions, consumer groups, dead letters and traces at once; its messages and cursors by `sweep_removed`. Answers the ids of its partitions; null: there is none.
-- Whoever pushes then finds the partition gone, and makes the queue anew.
-- Locks: the queue; then its partitions, in order, so that no push is under way in any.
create or replace function {schema}.remove_queue(queue text) returns bigint[]
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    own  integer;
    gone bigint[];
begin
    select q.id into own from {schema}.queue q where md5(q.name) = md5(queue) and q.name = queue for update;
    if not found then
        return null;
    end if;
    gone := array(select p.id from {schema}.partition p where p.queue_id = own order by p.id for update);
    insert into {schema}.removed_partition (partition_id) select unnest(gone);
    delete from {schema}.buffered b where b.queue = remove_queue.queue;
    delete from {schema}.queue q where q.id = own;
    return gone;
end
$$;
