/* expired */
-- Partitions whose first messages are older than an option of their queue allows, and the offset up to which they are,
-- exclusive.
-- $1 ages text: `retention`: `retentionSeconds` and `completedRetentionSeconds`, or `consumedRetentionSeconds` if
--    `retentionEnabled` is false; `waiting`: `ttl`, and `maxWaitTimeSeconds` if no consumer group reads the queue
-- $2 after bigint: the last partition of the page before  $3 limit bigint
-- Index: primary key of partition, from `after` on. Primary key of segment: the first entry of each partition of a
--        queue with such an option, and a binary search in those with expired messages; their cursors.
select p.id, u.end_offset
from (
    select q.id,
           case
               when $1::text <> 'retention' then
                   least(
                       nullif(q.ttl_seconds, 0),
                       case when not exists (select from {schema}.consumer k where k.queue_id = q.id)
                            then nullif(q.max_wait_time_seconds, 0) end)
               when q.retention_enabled then nullif(q.retention_seconds, 0)
           end as seconds,
           case
               when $1::text <> 'retention' then null
               when q.retention_enabled then nullif(q.completed_retention_seconds, 0)
               else nullif(q.consumed_retention_seconds, 0)
           end as done_seconds
    from {schema}.queue q
) q
join {schema}.partition p on p.queue_id = q.id
cross join lateral (select s.next_offset, s.created_at from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset limit 1) f
left join lateral (select min(c.position) as position from {schema}.cursor c
    where c.partition_id = p.id and q.done_seconds is not null) c on true
cross join lateral (select s.next_offset as head from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) l
cross join lateral (select greatest(
    case when f.created_at < now() - q.seconds * interval '1 s'
         then {schema}.offset_at(p.id, now() - q.seconds * interval '1 s', l.head) end,
    case when f.created_at < now() - q.done_seconds * interval '1 s' and f.next_offset <= c.position
         then least(c.position, {schema}.offset_at(p.id, now() - q.done_seconds * interval '1 s', l.head)) end)
             as end_offset offset 0) u
where (q.seconds is not null or q.done_seconds is not null) and p.id > $2::bigint
  and f.created_at < now() - least(q.seconds, q.done_seconds) * interval '1 s' and u.end_offset is not null
order by p.id limit $3::bigint
