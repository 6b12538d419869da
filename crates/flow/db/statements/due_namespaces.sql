/* due_namespaces */
-- Which of some sources have a due step, as indexes from 1. A source is a namespace ($1) with step names ($3); `lasts`
-- ($2) says where the names of each end. With `every` ($4) it is all names except these.
-- Index: step_due_in_namespace for all names, otherwise step_due_in_queue; only queues that have steps.
select q.index::integer
from (
    select q.namespace, q.every, q.index, ($3::text[])[coalesce(($2::integer[])[q.index - 1], 0) + 1:q.last] as names
    from unnest($1::text[], $2::integer[], $4::boolean[]) with ordinality as q (namespace, last, every, index)
) q
join {schema}.namespace n on n.name = q.namespace
where exists (
    select from {schema}.live_namespace_queues(array[n.id::bigint << 40], array[(n.id::bigint << 40) + 65535]) l
    where q.every and q.names = '{}' and l.due_at <= now()
) or exists (
    select from unnest(q.names) as w (name)
    cross join lateral (
        select l.id >> 16 << 16 as since from {schema}.step_queue l where l.namespace_id = n.id and l.name = w.name
            limit 1
    ) r
    cross join lateral {schema}.live_queues(array[r.since], array[r.since + 65535]) l
    where not q.every and l.due_at <= now()
) or exists (
    select from {schema}.live_queues(array[(n.id::bigint << 40) + 65536], array[(n.id + 1::bigint << 40) - 1]) l
    cross join lateral (select k.name from {schema}.step_queue k where k.id = l.queue_id offset 0) k
    where q.every and q.names <> '{}' and l.due_at <= now() and k.name <> all (q.names)
)
