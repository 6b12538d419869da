/* step_names */
-- The names of steps in some namespaces ($1) of which any are due or leased, except some names ($2); only of some names
-- ($3; null: of all).
-- Index: step_due_in_queue of the queues that have steps.
select distinct n.name as namespace, k.name as step
from {schema}.namespace n
cross join lateral (
    select (n.id::bigint << 40) + 65536 as since, (n.id + 1::bigint << 40) - 1 as until where $3::text[] is null
    union all
    select r.since, r.since + 65535
    from unnest($3::text[]) as w (name)
    cross join lateral (
        select l.id >> 16 << 16 as since from {schema}.step_queue l where l.namespace_id = n.id and l.name = w.name
            limit 1
    ) r
) r
cross join lateral {schema}.live_queues(array[r.since], array[r.until]) l
cross join lateral (select k.name from {schema}.step_queue k where k.id = l.queue_id offset 0) k
where n.name = any ($1) and k.name <> all ($2)
