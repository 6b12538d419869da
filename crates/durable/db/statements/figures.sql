/* figures */
-- How orchestrations stand, and what waits to be worked on. $1 counted bigint: so many of each are counted at most
-- $2 bytes bigint: `instances` is counted one by one up to this size
-- Rows:  `kind` o: instances by status; beyond that size as the planner estimates them, by the last analyze. m:
--        messages
--        that are due and t: turns under way. a: activities that wait for a worker and w: those that one has. `oldest`:
--        for how long the oldest has been due, in seconds.
-- Index: orchestrator_queue_due, index-only; worker_queue_due; `instances` from its beginning, up to that size.
-- Pages: 1 000 000 instances and queues of 10 000 each: 245, in 8 ms. `instances` is then not read.
with size as materialized (
    select c.oid, pg_relation_size(c.oid) > $2::bigint as large, greatest(c.reltuples, 0) as instances
    from pg_class c
    join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = {schema_text} and c.relname = 'instances'
), estimate as (
    select v.status, (v.frequency * s.instances)::bigint as amount
    from size s
    join pg_stats p on p.schemaname = {schema_text} and p.tablename = 'instances' and p.attname = 'status'
    cross join lateral unnest(p.most_common_vals::text::text[], p.most_common_freqs) as v (status, frequency)
    where s.large
), message as materialized (
    select q.visible_at from {schema}.orchestrator_queue q
    where q.visible_at <= now() order by q.visible_at limit $1::bigint
), activity as materialized (
    select q.visible_at, q.locked_until > now() as taken from {schema}.worker_queue q
    where q.visible_at <= now() limit $1::bigint
)
select 'o' as kind, i.status as state, count(*) as amount, null::float8 as oldest
from {schema}.instances i
where not (select s.large from size s)
group by i.status
union all
select 'o', e.status, e.amount, null from estimate e
union all
select 'm', null, count(*), extract(epoch from now() - min(m.visible_at))::float8 from message m
union all
select 't', null, count(*), null from {schema}.instance_locks l where l.locked_until > now()
union all
select case when a.taken then 'w' else 'a' end, null, count(*), extract(epoch from now() - min(a.visible_at))::float8
from (select a.visible_at, coalesce(a.taken, false) as taken from activity a) a
group by a.taken
