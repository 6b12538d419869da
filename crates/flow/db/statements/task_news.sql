/* task_news */
-- How tasks ($1) stand, as listeners are told: state, priority, how many steps can be claimed and their names, when they last changed, and whether their namespace is announced.
-- What was sent through another queue can be claimed, though it is due only when it is to be sent again.
-- Rows:  one per task that is there.
-- Index: primary keys; the steps of these tasks.
select t.id, n.name as namespace, t.priority, t.state::text as state, (extract(epoch from t.updated_at) * 1000000)::bigint as updated_at_us,
       n.announces or n.mode = 's' as announced, r.ready, r.names
from unnest($1::uuid[]) as q (id)
join {schema}.task t on t.id = q.id
join {schema}.namespace n on n.id = t.namespace_id
cross join lateral (
    select count(*) as ready, array_agg(distinct d.name) as names
    from {schema}.step s
    join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
    where s.task_id = t.id and (s.state = 'r' and s.due_at < 'infinity' or s.state = 'w' and s.due_at <= now())
) r
