-- Finds partitions by the names of their queues and their own, and makes what is missing, with a cursor for every consumer group of the queue.
-- namespaces, tasks: of a queue that has to be made.
-- Rows: one per pair of names, in order. `made`: the partition is new, and so empty.
-- Locks: the queues in whose partitions something is missing, in key share mode, so that no consumer group is made meanwhile without a cursor here.
create or replace function {schema}.open_partitions(queues text[], partitions text[], namespaces text[], tasks text[])
returns table (place integer, partition_id bigint, namespace text, task text, encrypted boolean, revision integer, made boolean)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    new bigint[] := '{}';
begin
    if exists (select from unnest(queues, partitions) as n (queue, partition) where not exists (
        select from {schema}.queue q join {schema}.partition p on p.queue_id = q.id
        where md5(q.name) = md5(n.queue) and q.name = n.queue and md5(p.name) = md5(n.partition) and p.name = n.partition))
    then
        insert into {schema}.queue (name, namespace, task)
        select n.queue, n.namespace, n.task from unnest(queues, namespaces, tasks) as n (queue, namespace, task)
        where not exists (select from {schema}.queue q where md5(q.name) = md5(n.queue))
        group by n.queue, n.namespace, n.task order by n.queue
        on conflict (md5(name)) do nothing;
        perform from {schema}.queue q where md5(q.name) = any (array(select md5(n) from unnest(queues) as n)) order by q.id for key share;
        with made as (
            insert into {schema}.partition (queue_id, name)
            select distinct q.id, n.partition from unnest(queues, partitions) as n (queue, partition)
            join {schema}.queue q on md5(q.name) = md5(n.queue) and q.name = n.queue
            where not exists (select from {schema}.partition p where p.queue_id = q.id and md5(p.name) = md5(n.partition))
            order by q.id, n.partition
            on conflict (queue_id, md5(name)) do nothing
            returning id
        )
        select coalesce(array_agg(id), '{}') into new from made;
        insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
        select p.id, c.id, 0, 'infinity' from {schema}.partition p join {schema}.consumer c on c.queue_id = p.queue_id where p.id = any (new);
    end if;
    return query
    select n.place::integer, p.id, q.namespace, q.task, q.encryption_enabled, q.revision, p.id = any (new)
    from unnest(queues, partitions) with ordinality as n (queue, partition, place)
    join {schema}.queue q on md5(q.name) = md5(n.queue) and q.name = n.queue
    join {schema}.partition p on p.queue_id = q.id and md5(p.name) = md5(n.partition) and p.name = n.partition
    order by n.place;
end
$$;
