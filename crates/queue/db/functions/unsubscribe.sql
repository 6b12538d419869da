-- Deletes a consumer group of a queue with its cursors. False: there is no such group.
-- Locks: its cursors first, in the order of an ack, which may lock the queue next; then the queue, so that no partition
--        is created meanwhile with a cursor for the group.
create or replace function {schema}.unsubscribe(consumer_id integer) returns boolean
language plpgsql volatile set search_path = reveille_own {index_plans}
as $$
#variable_conflict use_column
declare
    own_queue_id integer := (select k.queue_id from {schema}.consumer k where k.id = unsubscribe.consumer_id);
begin
    perform from (select p.id from {schema}.partition p where p.queue_id = own_queue_id order by p.id) p
    cross join lateral (
        select c.version
        from {schema}.cursor c
        where c.partition_id = p.id and c.consumer_id = unsubscribe.consumer_id
        order by c.version desc
        limit 1
        for update
    ) c;
    perform from {schema}.queue q where q.id = own_queue_id for update;
    delete from {schema}.cursor c
    using {schema}.partition p
    where p.queue_id = own_queue_id and c.partition_id = p.id and c.consumer_id = unsubscribe.consumer_id;
    delete from {schema}.consumer k where k.id = unsubscribe.consumer_id;
    return found;
end
$$;
