-- Creates a queue or changes its options.
-- change: the name of the queue and its options. null: unchanged; of a new queue, the default of the table.
-- default_namespace, default_task: of a new queue whose change has none.
-- Rows:  the queue; none if another queue's name has the same hash.
-- Locks: the queue. If its delay or window changes, its partitions, so that no push is under way with the old values;
--        then the cursors that wait for a delay or window, both in order. They become due, and the next claim computes
--        how long they have to wait. Cursors that wait for a retry delay are left alone.
create or replace function {schema}.configure(change {schema}.queue, default_namespace text, default_task text)
returns setof {schema}.queue
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    old     {schema}.queue;
    new     {schema}.queue;
    waiting record;
begin
    insert into {schema}.queue (name, namespace, task)
    values (change.name, coalesce(change.namespace, default_namespace), coalesce(change.task, default_task))
    on conflict (md5(name)) do nothing;
    select q.*
    into old
    from {schema}.queue q
    where md5(q.name) = md5(change.name) and q.name = change.name
    for no key update;
    if not found then
        return;
    end if;
    update {schema}.queue q
    set namespace = coalesce(change.namespace, q.namespace),
        task = coalesce(change.task, q.task),
        lease_seconds = coalesce(change.lease_seconds, q.lease_seconds),
        retry_limit = coalesce(change.retry_limit, q.retry_limit),
        retry_delay_ms = coalesce(change.retry_delay_ms, q.retry_delay_ms),
        max_size = coalesce(change.max_size, q.max_size),
        ttl_seconds = coalesce(change.ttl_seconds, q.ttl_seconds),
        dead_letter_queue = coalesce(change.dead_letter_queue, q.dead_letter_queue),
        dlq_after_max_retries = coalesce(change.dlq_after_max_retries, q.dlq_after_max_retries),
        priority = coalesce(change.priority, q.priority),
        delayed_processing_seconds = coalesce(change.delayed_processing_seconds, q.delayed_processing_seconds),
        window_buffer_seconds = coalesce(change.window_buffer_seconds, q.window_buffer_seconds),
        retention_seconds = coalesce(change.retention_seconds, q.retention_seconds),
        completed_retention_seconds = coalesce(change.completed_retention_seconds, q.completed_retention_seconds),
        retention_enabled = coalesce(change.retention_enabled, q.retention_enabled),
        consumed_retention_seconds = coalesce(change.consumed_retention_seconds, q.consumed_retention_seconds),
        encryption_enabled = coalesce(change.encryption_enabled, q.encryption_enabled),
        max_wait_time_seconds = coalesce(change.max_wait_time_seconds, q.max_wait_time_seconds),
        charge_expired_leases = coalesce(change.charge_expired_leases, q.charge_expired_leases),
        revision = q.revision + case
            when change.namespace <> q.namespace
                 or change.task <> q.task
                 or change.encryption_enabled <> q.encryption_enabled then 1
            else 0 end
    where q.id = old.id
    returning q.* into new;
    if (old.delayed_processing_seconds, old.window_buffer_seconds)
       <> (new.delayed_processing_seconds, new.window_buffer_seconds) then
        perform from {schema}.partition p where p.queue_id = new.id order by p.id for no key update;
        for waiting in
            select c.partition_id, c.consumer_id, c.version
            from {schema}.consumer k
            join {schema}.cursor c on c.consumer_id = k.id
            where k.queue_id = new.id
              and c.due_at > now() and c.due_at < 'infinity'
              and c.lease_id is null
              and not (c.retries > 0 and c.due_at <= now() + coalesce(old.retry_delay_ms, 0) * interval '1 ms')
            order by c.partition_id, c.consumer_id
            for update of c
        loop
            update {schema}.cursor c
            set version = c.version + 1,
                due_at = now()
            where c.partition_id = waiting.partition_id
              and c.consumer_id = waiting.consumer_id
              and c.version = waiting.version;
        end loop;
    end if;
    return next new;
end
$$;
