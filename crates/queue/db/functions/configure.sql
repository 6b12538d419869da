-- Makes a queue, or changes one. An option that is null stays as it is, or becomes what a new queue has.
-- namespace, task: null: as it is; of a new queue `own_namespace` and `own_task`, what its name says.
-- Rows:  the queue; none if another has a name with the same hash.
-- Locks: the queue. If its delay or window changes, its partitions, so that no push is under way that goes by the old
--        ones; then the cursors that wait for it, both in
--        order: they are due, and who looks finds out how long they really have to wait. Those that wait to try again
--        what failed are left: they do not wait for that.
drop function if exists {schema}.configure(
    text, text, text, text, text, integer, integer, integer, bigint, integer, boolean, boolean, integer, integer, integer,
    integer, integer, boolean, boolean, integer);
create or replace function {schema}.configure(
    queue text, namespace text, task text, own_namespace text, own_task text,
    lease_seconds integer, retry_limit integer, retry_delay_ms integer, max_size bigint, ttl_seconds integer,
    dead_letter_queue boolean, dlq_after_max_retries boolean, priority integer, delayed_processing_seconds integer, window_buffer_seconds integer,
    retention_seconds integer, completed_retention_seconds integer, retention_enabled boolean, encryption_enabled boolean, max_wait_time_seconds integer,
    charge_expired_leases boolean, consumed_retention_seconds integer
) returns setof {schema}.queue
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    old     {schema}.queue;
    new     {schema}.queue;
    waiting record;
begin
    insert into {schema}.queue (name, namespace, task)
    values (queue, coalesce(configure.namespace, own_namespace), coalesce(configure.task, own_task))
    on conflict (md5(name)) do nothing;
    select q.* into old from {schema}.queue q where md5(q.name) = md5(queue) and q.name = queue for no key update;
    if not found then
        return;
    end if;
    update {schema}.queue q set
        namespace = coalesce(configure.namespace, q.namespace),
        task = coalesce(configure.task, q.task),
        lease_seconds = coalesce(configure.lease_seconds, q.lease_seconds),
        retry_limit = coalesce(configure.retry_limit, q.retry_limit),
        retry_delay_ms = coalesce(configure.retry_delay_ms, q.retry_delay_ms),
        max_size = coalesce(configure.max_size, q.max_size),
        ttl_seconds = coalesce(configure.ttl_seconds, q.ttl_seconds),
        dead_letter_queue = coalesce(configure.dead_letter_queue, q.dead_letter_queue),
        dlq_after_max_retries = coalesce(configure.dlq_after_max_retries, q.dlq_after_max_retries),
        priority = coalesce(configure.priority, q.priority),
        delayed_processing_seconds = coalesce(configure.delayed_processing_seconds, q.delayed_processing_seconds),
        window_buffer_seconds = coalesce(configure.window_buffer_seconds, q.window_buffer_seconds),
        retention_seconds = coalesce(configure.retention_seconds, q.retention_seconds),
        completed_retention_seconds = coalesce(configure.completed_retention_seconds, q.completed_retention_seconds),
        retention_enabled = coalesce(configure.retention_enabled, q.retention_enabled),
        encryption_enabled = coalesce(configure.encryption_enabled, q.encryption_enabled),
        max_wait_time_seconds = coalesce(configure.max_wait_time_seconds, q.max_wait_time_seconds),
        charge_expired_leases = coalesce(configure.charge_expired_leases, q.charge_expired_leases),
        consumed_retention_seconds = coalesce(configure.consumed_retention_seconds, q.consumed_retention_seconds),
        revision = q.revision + case when configure.namespace <> q.namespace or configure.task <> q.task or configure.encryption_enabled <> q.encryption_enabled
                                     then 1 else 0 end
    where q.id = old.id returning q.* into new;
    if (old.delayed_processing_seconds, old.window_buffer_seconds) <> (new.delayed_processing_seconds, new.window_buffer_seconds) then
        perform from {schema}.partition p where p.queue_id = new.id order by p.id for no key update;
        for waiting in
            select c.partition_id, c.consumer_id, c.version from {schema}.consumer k join {schema}.cursor c on c.consumer_id = k.id
            where k.queue_id = new.id and c.due_at > now() and c.due_at < 'infinity' and c.lease_id is null
              and not (c.retries > 0 and c.due_at <= now() + coalesce(old.retry_delay_ms, 0) * interval '1 ms')
            order by c.partition_id, c.consumer_id for update of c
        loop
            update {schema}.cursor c set version = c.version + 1, due_at = now()
            where c.partition_id = waiting.partition_id and c.consumer_id = waiting.consumer_id and c.version = waiting.version;
        end loop;
    end if;
    return next new;
end
$$;
