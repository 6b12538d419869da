/* lagging */
-- The partitions with messages that a consumer group has not consumed for longest, the oldest first.
-- $1 seconds float8: the least age  $2 group text, null: all  $3 limit bigint
-- Index: as `lags`.
select k.name, q.name as queue, p.id, p.name as partition, h.head - a.position as lag,
    extract(epoch from now() - o.created_at)::float8 as lag_seconds,
       a.position, h.head, case when c.lease_id is not null
           and c.due_at > now() then c.due_at end as leased_until, c.retries, c.read_at
from {schema}.queue q
join {schema}.partition p on p.queue_id = q.id
cross join lateral (select s.next_offset as head from {schema}.segment s
    where s.partition_id = p.id order by s.first_offset desc limit 1) h
join {schema}.cursor c on c.partition_id = p.id
join {schema}.consumer k on k.id = c.consumer_id
cross join lateral (select greatest(c.position, p.first_offset) as position) a
cross join lateral (select s.created_at from {schema}.segment s
    where s.partition_id = p.id and s.first_offset <= a.position and a.position < h.head
                    order by s.first_offset desc limit 1) o
where ($2::text is null or md5(k.name) = md5($2::text) and k.name = $2::text)
  and extract(epoch from now() - o.created_at)::float8 >= $1::float8
order by o.created_at, p.id
limit $3::bigint
