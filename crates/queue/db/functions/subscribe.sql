-- Makes a consumer group of a queue with a cursor in every partition, and answers its id; of one that exists, the id.
-- mode: `all`: from the first message; `new`: from what comes after somebody began to wait for it, `waited_ms` ago; `timestamp`: from the first message that is not older than `since`.
-- Locks: the queue, so that no partition is made meanwhile without a cursor for this group; of the partitions those that nobody has: where somebody pushes the
--        cursor is due, and whoever looks finds out what there is.
create or replace function {schema}.subscribe(queue_id integer, group_name text, mode text, since timestamptz, waited_ms bigint) returns integer
language plpgsql volatile set search_path = reveille_own
as $$
#variable_conflict use_column
declare
    own integer;
    still bigint[];
begin
    perform from {schema}.queue q where q.id = subscribe.queue_id for update;
    if not found then
        return null;
    end if;
    select c.id into own from {schema}.consumer c
    where c.queue_id = subscribe.queue_id and md5(c.name) = md5(group_name) and c.name = group_name;
    if found then
        return own;
    end if;
    insert into {schema}.consumer (queue_id, name, mode, since) values (subscribe.queue_id, group_name, subscribe.mode, subscribe.since)
    returning id into own;
    still := array(select p.id from {schema}.partition p where p.queue_id = subscribe.queue_id order by p.id for no key update skip locked);
    insert into {schema}.cursor (partition_id, consumer_id, position, due_at)
    select p.id, own, b.position, case when b.position >= h.head and p.id = any (still) then 'infinity' else now() end
    from {schema}.partition p
    left join lateral (select s.next_offset from {schema}.segment s where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    cross join lateral (select coalesce(l.next_offset, p.first_offset) as head) h
    cross join lateral (select case subscribe.mode
        when 'new' then {schema}.offset_at(p.id, now() - waited_ms * interval '1 ms', h.head)
        when 'timestamp' then {schema}.offset_at(p.id, subscribe.since, h.head)
        else p.first_offset end as position) b
    where p.queue_id = subscribe.queue_id;
    return own;
end
$$;
