-- Finds partitions by the names of their queues and their own names. Missing queues and partitions are created, with a
-- cursor for every consumer group of the queue.
-- namespaces, tasks: of a queue that has to be created.
-- Rows:  one per pair of names, in order. is_new: the partition was created, and is empty.
-- Locks: the queues of missing partitions, in key share mode, so that no consumer group is created meanwhile without a
--        cursor here.
create or replace function {schema}.open_partitions(queues text[], partitions text[], namespaces text[], tasks text[])
returns table (
    number integer, partition_id bigint, namespace text, task text, encrypted boolean, revision integer, is_new boolean
)
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    created bigint[] := '{}';
begin
    if exists (
        select from unnest(queues, partitions) as wanted (queue, partition)
        where not exists (
            select from {schema}.queue q
            join {schema}.partition p on p.queue_id = q.id
            where md5(q.name) = md5(wanted.queue) and q.name = wanted.queue
              and md5(p.name) = md5(wanted.partition) and p.name = wanted.partition)
    ) then
        insert into {schema}.queue (name, namespace, task)
        select wanted.queue, wanted.namespace, wanted.task
        from unnest(queues, namespaces, tasks) as wanted (queue, namespace, task)
        where not exists (select from {schema}.queue q where md5(q.name) = md5(wanted.queue))
        group by wanted.queue, wanted.namespace, wanted.task
        order by wanted.queue
        on conflict (md5(name)) do nothing;
        perform from {schema}.queue q
        where md5(q.name) = any (array(select md5(name) from unnest(queues) as name))
        order by q.id
        for key share;
        with new_partition as (
            insert into {schema}.partition (queue_id, name)
            select distinct q.id, wanted.partition
            from unnest(queues, partitions) as wanted (queue, partition)
            join {schema}.queue q on md5(q.name) = md5(wanted.queue) and q.name = wanted.queue
            where not exists (
                select from {schema}.partition p where p.queue_id = q.id and md5(p.name) = md5(wanted.partition))
            order by q.id, wanted.partition
            on conflict (queue_id, md5(name)) do nothing
            returning id
        )
        select coalesce(array_agg(id), '{}') into created from new_partition;
        insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
        select p.id, k.id, 0, 'infinity'
        from {schema}.partition p
        join {schema}.consumer k on k.queue_id = p.queue_id
        where p.id = any (created);
    end if;
    return query
    select wanted.number::integer, p.id, q.namespace, q.task, q.encryption_enabled, q.revision, p.id = any (created)
    from unnest(queues, partitions) with ordinality as wanted (queue, partition, number)
    join {schema}.queue q on md5(q.name) = md5(wanted.queue) and q.name = wanted.queue
    join {schema}.partition p
        on p.queue_id = q.id and md5(p.name) = md5(wanted.partition) and p.name = wanted.partition
    order by wanted.number;
end
$$;
