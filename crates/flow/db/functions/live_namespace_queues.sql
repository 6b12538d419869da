-- The namespace queues of some ranges that have a step which is due, leased or waits for a retry, and when the first
-- step of each is next due.
-- froms, tos: the ranges, bounds included.
-- Index: step_due_in_namespace, from one queue to the next: a lookup for each range, and one for each queue that is
--        found. Queues that are empty cost nothing.
-- Plan:  inlined into the statements that call it.
create or replace function {schema}.live_namespace_queues(froms bigint[], tos bigint[])
returns table (queue_id bigint, due_at timestamptz)
language sql stable
as $$
    with recursive live (queue_id, due_at, until) as (
        select s.namespace_queue_id, s.due_at, r.until
        from unnest(froms, tos) as r (since, until)
        cross join lateral (
            select s.namespace_queue_id, s.due_at from {schema}.step s
            where s.namespace_queue_id >= r.since and s.namespace_queue_id <= r.until and s.due_at < 'infinity'
            order by s.namespace_queue_id, s.due_at
            limit 1
        ) s
        union all
        select s.namespace_queue_id, s.due_at, l.until
        from live l
        cross join lateral (
            select s.namespace_queue_id, s.due_at from {schema}.step s
            where s.namespace_queue_id > l.queue_id and s.namespace_queue_id <= l.until and s.due_at < 'infinity'
            order by s.namespace_queue_id, s.due_at
            limit 1
        ) s
    )
    select l.queue_id, l.due_at from live l
$$;
