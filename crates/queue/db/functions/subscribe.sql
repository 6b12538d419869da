-- Creates a consumer group of a queue with a cursor in every partition. Answer: its id, also if it existed before; null
-- if there is no such queue.
-- mode:  `all`: from the first message. `new`: from messages that are pushed after the first pop began to wait,
--        `waited_ms` ago. `timestamp`: from the first message that is not older than `since`.
-- Locks: the queue, so that no partition is created meanwhile without a cursor for this group; the partitions, skip
--        locked: where a push is under way the cursor is made due, and the next claim finds out what there is.
create or replace function {schema}.subscribe(
    queue_id integer, group_name text, mode text, since timestamptz, waited_ms bigint
) returns integer
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    own_consumer_id integer;
    locked          bigint[];
begin
    perform from {schema}.queue q where q.id = subscribe.queue_id for update;
    if not found then
        return null;
    end if;
    select k.id
    into own_consumer_id
    from {schema}.consumer k
    where k.queue_id = subscribe.queue_id and md5(k.name) = md5(group_name) and k.name = group_name;
    if found then
        return own_consumer_id;
    end if;
    insert into {schema}.consumer (queue_id, name, mode, since)
    values (subscribe.queue_id, group_name, subscribe.mode, subscribe.since)
    returning id into own_consumer_id;
    locked := array(
        select p.id
        from {schema}.partition p
        where p.queue_id = subscribe.queue_id
        order by p.id
        for no key update skip locked);
    insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
    select p.id, own_consumer_id, start.position,
           case when start.position >= head.next_offset and p.id = any (locked) then 'infinity' else now() end
    from {schema}.partition p
    left join lateral (
        select s.next_offset
        from {schema}.segment s
        where s.partition_id = p.id
        order by s.first_offset desc
        limit 1
    ) newest on true
    cross join lateral (select coalesce(newest.next_offset, p.first_offset) as next_offset) head
    cross join lateral (
        select case subscribe.mode
                   when 'new' then {schema}.offset_at(p.id, now() - waited_ms * interval '1 ms', head.next_offset)
                   when 'timestamp' then {schema}.offset_at(p.id, subscribe.since, head.next_offset)
                   else p.first_offset end as position
    ) start
    where p.queue_id = subscribe.queue_id;
    return own_consumer_id;
end
$$;
