/* peek_messages */
-- The messages of a queue that a consumer group has not consumed, oldest first: what pops will deliver. Nothing is
-- leased.
-- $1 queue_id integer  $2 group text: of a group that does not exist, all messages  $3 partition text; null: any
-- $4 limit bigint  $5 bytes bigint: of the page, at least one message
-- Rows:  leased_until: of those that the group has leased. retries: of the next message of a partition.
-- Index: of segment and cursor the primary key. 10 000 partitions: 75 ms.
with part as materialized (
    select p.id, p.name, a.position, l.head, c.due_at, c.lease_end, c.retries,
           c.lease_id is not null and c.due_at > now() as is_leased, o.created_at
    from {schema}.partition p
    cross join lateral (
        select s.next_offset as head
        from {schema}.segment s
        where s.partition_id = p.id
        order by s.first_offset desc
        limit 1
    ) l
    left join {schema}.consumer k on k.queue_id = p.queue_id and md5(k.name) = md5($2::text) and k.name = $2::text
    left join lateral (
        select c.*
        from {schema}.cursor c
        where c.partition_id = p.id and c.consumer_id = k.id
        order by c.version desc
        limit 1
    ) c on true
    cross join lateral (select greatest(c.position, p.first_offset) as position) a
    cross join lateral (
        select s.created_at
        from {schema}.segment s
        where s.partition_id = p.id and s.first_offset <= a.position
        order by s.first_offset desc
        limit 1
    ) o
    where p.queue_id = $1::integer and a.position < l.head
      and ($3::text is null or md5(p.name) = md5($3::text) and p.name = $3::text)
    order by o.created_at, p.id
    limit $4::bigint
), chosen as materialized (
    select p.*, s.first_offset as segment, s.created_at as stored_at
    from part p
    cross join lateral (
        select s.first_offset, s.created_at
        from {schema}.segment s
        where s.partition_id = p.id and s.next_offset > p.position
          and s.first_offset >= coalesce(
              (select max(f.first_offset)
               from {schema}.segment f
               where f.partition_id = p.id and f.first_offset <= p.position),
              p.position)
        order by s.first_offset
        limit $4::bigint
    ) s
    order by s.created_at, p.id, s.first_offset
    limit $4::bigint
), message as (
    select m.id, m.transaction_id, s.trace_ids[m.element] as trace_id, s.producers[m.element] as producer,
           o.message_offset, c.stored_at, c.id as partition_id, c.name as partition, s.encrypted,
           s.payloads[m.element] as payload,
           case when c.is_leased and o.message_offset < c.lease_end then c.due_at end as leased_until,
           case when o.message_offset = c.position then coalesce(c.retries, 0) else 0 end as retries,
           row_number() over (order by c.stored_at, c.id, o.message_offset) as number,
           sum(octet_length(s.payloads[m.element])) over (order by c.stored_at, c.id, o.message_offset) as upto_bytes
    from chosen c
    join {schema}.segment s on s.partition_id = c.id and s.first_offset = c.segment
    cross join lateral unnest(s.ids, s.transaction_ids) with ordinality as m (id, transaction_id, element)
    cross join lateral (select s.first_offset + m.element - 1 as message_offset) o
    where m.id is not null and o.message_offset >= c.position
    order by c.stored_at, c.id, o.message_offset
    limit $4::bigint
)
select m.id, m.transaction_id, m.trace_id, m.producer, m.message_offset, m.stored_at as created_at, m.partition_id,
       m.partition, m.encrypted, m.payload, m.leased_until, m.retries
from message m
where m.number = 1 or m.upto_bytes <= $5::bigint
order by m.number
