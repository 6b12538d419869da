/* expired */
-- Partitions whose first messages have outlived what their queue wants, and up to before which offset. $1 ages text:
-- `kept`: by `retentionSeconds` and `completedRetentionSeconds`, or
-- by `consumedRetentionSeconds` where `retentionEnabled` is false;
-- `waiting`: by `ttl`, and by `maxWaitTimeSeconds` where no consumer group reads  $2 after bigint: the partition before
-- $3 limit bigint
-- Index: of partition the primary key, from `after` on until there are enough. Of segment the primary key: of each
--        partition of a queue that wants it the first entry, and of those
-- that have outlived something a search by halves, once; of those the cursors likewise.
select p.id, u.upto
from (
    select q.id, case when $1::text = 'kept' then case when q.retention_enabled then nullif(q.retention_seconds, 0) end
                      else least(nullif(q.ttl_seconds, 0), case
                          when not exists (select from {schema}.consumer k where k.queue_id = q.id)
                                                                then nullif(q.max_wait_time_seconds, 0) end) end
                                                                    as seconds,
           case when $1::text = 'kept' then nullif(
               case when q.retention_enabled then q.completed_retention_seconds else q.consumed_retention_seconds end,
                   0) end as done_seconds
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
             as upto offset 0) u
where (q.seconds is not null or q.done_seconds is not null) and p.id > $2::bigint
  and f.created_at < now() - least(q.seconds, q.done_seconds) * interval '1 s' and u.upto is not null
order by p.id limit $3::bigint
