/* due_queues */
-- The queues of a namespace, a task or both, and in how many milliseconds each has messages for a consumer group. A
-- queue that the group has never read is due now; a paused queue or group has no row. In
-- order of priority, then of due time.
-- $1 namespace text  $2 task text  $3 group_name text
-- Index: namespaces and tasks; then cursor_due, the first entry of each group.
select q.name, case when k.id is null then 0 else extract(epoch from c.due_at - now()) * 1000 end::float8
from (
    select q.* from {schema}.queue q
        where md5(q.namespace) = md5($1::text) and q.namespace = $1::text and ($2::text is null or q.task = $2::text)
    union all
    select q.* from {schema}.queue q where $1::text is null and md5(q.task) = md5($2::text) and q.task = $2::text
) q
left join {schema}.consumer k on k.queue_id = q.id and md5(k.name) = md5($3::text) and k.name = $3::text
left join lateral (select c.due_at from {schema}.cursor c
    where c.consumer_id = k.id and c.due_at < 'infinity' order by c.due_at limit 1) c on true
where q.paused_at is null and k.paused_at is null and (k.id is null or c.due_at is not null)
order by q.priority desc, c.due_at nulls first, q.id
