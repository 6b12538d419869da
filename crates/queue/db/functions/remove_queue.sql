-- Deletes a queue with its partitions, consumer groups, dead letters and traces; its messages and cursors are left to
-- `delete_removed`. Answer: the ids of its partitions; null: there is no such queue.
-- A push that follows finds the partition gone, and creates the queue again.
-- Locks: the queue; then its partitions, in order, so that no push is under way in any.
create or replace function {schema}.remove_queue(queue text) returns bigint[]
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    own_queue_id integer;
    removed      bigint[];
begin
    select q.id into own_queue_id from {schema}.queue q where md5(q.name) = md5(queue) and q.name = queue for update;
    if not found then
        return null;
    end if;
    removed := array(select p.id from {schema}.partition p where p.queue_id = own_queue_id order by p.id for update);
    insert into {schema}.removed_partition (partition_id) select unnest(removed);
    delete from {schema}.buffered b where b.queue = remove_queue.queue;
    delete from {schema}.queue q where q.id = own_queue_id;
    return removed;
end
$$;
