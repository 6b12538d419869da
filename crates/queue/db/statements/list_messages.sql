/* list_messages */
-- Messages, newest first.
-- $1 queue text  $2 partition text  $3 namespace text  $4 task text  $5 status text: pending, processing, completed
-- $6 from timestamptz  $7 before timestamptz  $8 limit bigint  $9 offset bigint; null: any
-- The newest n messages are in the n partitions with the newest segments: so one segment of each partition is read, and
-- at most n segments of each of n partitions.
-- Index: of segment and cursor the primary key. A page may be shorter than asked for where messages were deleted.
with part as materialized (
    select p.id, p.name, p.first_offset, q.name as queue, q.namespace, q.task, q.priority,
        coalesce(l.next_offset, p.first_offset) as head, c.*
    from {schema}.queue q
    join {schema}.partition p on p.queue_id = q.id
    left join lateral (select s.next_offset from {schema}.segment s
        where s.partition_id = p.id order by s.first_offset desc limit 1) l on true
    cross join lateral (
        select min(greatest(c.position, p.first_offset)) as done,
               min(c.position) filter (where c.lease_id is not null and c.due_at > now()) as leased_from,
               max(c.lease_end) filter (where c.lease_id is not null and c.due_at > now()) as leased_until_offset
        from {schema}.cursor c where c.partition_id = p.id) c
    where ($1::text is null or md5(q.name) = md5($1::text) and q.name = $1::text)
      and ($2::text is null or md5(p.name) = md5($2::text) and p.name = $2::text)
      and ($3::text is null or md5(q.namespace) = md5($3::text) and q.namespace = $3::text)
      and ($4::text is null or md5(q.task) = md5($4::text) and q.task = $4::text)
), span as (
    -- Where messages of this status can be.
    select part.*, greatest(part.first_offset, case $5::text when 'pending' then part.done
        when 'processing' then part.leased_from end) as low,
           least(part.head, case $5::text when 'completed' then coalesce(part.done, part.first_offset)
               when 'processing' then coalesce(part.leased_until_offset, part.first_offset) end,
                 case when $7::timestamptz is not null then {schema}.offset_at(part.id, $7::timestamptz,
                     part.head) end) as high
    from part
), newest as materialized (
    select span.*, s.created_at,
           case when $6::timestamptz is null then span.low
               else greatest(span.low, {schema}.offset_at(span.id, $6::timestamptz, span.head)) end as start
    from span
    cross join lateral (select s.created_at from {schema}.segment s
        where s.partition_id = span.id and s.first_offset < span.high
                        order by s.first_offset desc limit 1) s
    where span.low < span.high and ($6::timestamptz is null or s.created_at >= $6::timestamptz)
    order by s.created_at desc, span.id limit $8::bigint + $9::bigint
), chosen as materialized (
    select n.*, s.first_offset as segment, s.created_at as stored_at
    from newest n
    cross join lateral (
        select s.first_offset, s.created_at from {schema}.segment s
        where s.partition_id = n.id and s.first_offset < n.high and s.first_offset >= coalesce(
            (select max(f.first_offset) from {schema}.segment f
                where f.partition_id = n.id and f.first_offset <= n.start), n.start)
        order by s.first_offset desc limit $8::bigint + $9::bigint) s
    order by s.created_at desc, n.id, s.first_offset desc limit $8::bigint + $9::bigint
)
select m.id, m.transaction_id, s.trace_ids[m.element] as trace_id, s.producers[m.element] as producer, o.message_offset,
    c.stored_at as created_at,
       c.id as partition_id, c.name as partition, c.queue, c.namespace, c.task, c.priority, g.*,
       case when g.leased_until is not null then 'processing' when o.message_offset < c.done then 'completed'
           else 'pending' end as status
from chosen c
join {schema}.segment s on s.partition_id = c.id and s.first_offset = c.segment
cross join lateral unnest(s.ids, s.transaction_ids) with ordinality as m (id, transaction_id, element)
cross join lateral (select s.first_offset + m.element - 1 as message_offset) o
cross join lateral (
    select count(*) as groups, count(*) filter (where k.position > o.message_offset) as consumed_by,
           max(k.due_at) filter (where k.lease_id is not null and k.due_at > now() and k.position <= o.message_offset
               and k.lease_end > o.message_offset) as leased_until
    from {schema}.cursor k where k.partition_id = c.id) g
where m.id is not null and o.message_offset >= c.start and o.message_offset < c.high
  and ($5::text is null or $5::text = case when g.leased_until is not null then 'processing'
      when o.message_offset < c.done then 'completed' else 'pending' end)
order by c.stored_at desc, c.id, o.message_offset desc
limit $8::bigint offset $9::bigint
