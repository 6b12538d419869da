-- Locks the cursor that an ack is for: the one its lease names, or else that of its consumer group.
-- group_name: null: the group that the lease belongs or belonged to; without a lease, queue mode.
-- lease_id:   null: the ack is not fenced.
-- Answer: the cursor. If there is none, `problem` says why: `busy` (locked by another transaction; never if `patient`),
--         `no_partition`, `no_group`, or `lease_over`.
-- Locks:  one cursor, skip locked; `patient` waits for it.
-- Index:  cursor_lease. `partition_id + 0` hides the primary key from the planner: see functions/ack_leases.sql.
create or replace function {schema}.lock_acked_cursor(
    partition_id bigint, group_name text, lease_id uuid, patient boolean
) returns {schema}.acked_cursor
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    answer {schema}.acked_cursor;
    owner  record;
begin
    -- A lease that is not over names its cursor.
    if lease_id is not null then
        if patient then
            perform from {schema}.cursor c
            where c.lease_id = lock_acked_cursor.lease_id
              and c.partition_id + 0 = lock_acked_cursor.partition_id
            for update;
        end if;
        select null, c.partition_id, c.consumer_id, c.version, c.due_at, c.position, c.lease_id, c.lease_end,
               c.last_lease, c.retries, c.suspect_until, k.name, q.id, q.retry_limit, q.retry_delay_ms,
               q.delayed_processing_seconds, q.window_buffer_seconds
        into answer
        from {schema}.cursor c
        join {schema}.consumer k on k.id = c.consumer_id
        join {schema}.queue q on q.id = k.queue_id
        where c.lease_id = lock_acked_cursor.lease_id
          and c.partition_id + 0 = lock_acked_cursor.partition_id
        for update of c skip locked;
        if found then
            return answer;
        end if;
        if not patient and exists (
            select from {schema}.cursor c
            join {schema}.consumer k on k.id = c.consumer_id
            where c.lease_id = lock_acked_cursor.lease_id
              and c.partition_id + 0 = lock_acked_cursor.partition_id
        ) then
            answer.problem := 'busy';
            return answer;
        end if;
    end if;

    -- Otherwise the consumer group does.
    select k.id, k.name, p.queue_id, q.retry_limit, q.retry_delay_ms,
           q.delayed_processing_seconds, q.window_buffer_seconds
    into owner
    from {schema}.partition p
    join {schema}.queue q on q.id = p.queue_id
    left join {schema}.consumer k on k.queue_id = q.id and case
        -- The last lease of a cursor still says which group had it.
        when group_name is null and lock_acked_cursor.lease_id is not null then k.id = (
            select c.consumer_id
            from {schema}.cursor c
            where c.partition_id = p.id and c.last_lease = lock_acked_cursor.lease_id
            order by c.version desc
            limit 1)
        else md5(k.name) = md5(coalesce(group_name, '__QUEUE_MODE__'))
         and k.name = coalesce(group_name, '__QUEUE_MODE__') end
    where p.id = lock_acked_cursor.partition_id;
    answer.problem := case
        when not found then 'no_partition'
        when owner.id is not null then null
        when lease_id is null then 'no_group'
        else 'lease_over' end;
    if answer.problem is not null then
        return answer;
    end if;
    if patient then
        perform from {schema}.cursor c
        where c.partition_id = lock_acked_cursor.partition_id and c.consumer_id = owner.id
        order by c.version desc
        limit 1
        for update;
    end if;
    select null, c.partition_id, c.consumer_id, c.version, c.due_at, c.position, c.lease_id, c.lease_end, c.last_lease,
           c.retries, c.suspect_until, owner.name, owner.queue_id, owner.retry_limit, owner.retry_delay_ms,
           owner.delayed_processing_seconds, owner.window_buffer_seconds
    into answer
    from {schema}.cursor c
    where c.partition_id = lock_acked_cursor.partition_id and c.consumer_id = owner.id
    order by c.version desc
    limit 1
    for update skip locked;
    if not found then
        answer.problem := case when patient then 'no_group' else 'busy' end;
    end if;
    return answer;
end
$$;
