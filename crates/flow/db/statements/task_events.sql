/* task_events */
-- The state of tasks ($1) as it is announced: state, priority, the number and names of claimable steps, the last
-- change, and whether their namespace has announcements. A step that was sent to a queue is claimable, although it is
-- due only when it is to be sent again.
-- Rows:  one per task that exists.
-- Index: primary keys; the steps of these tasks.
select t.id, n.name as namespace, t.priority, t.state::text as state,
       (extract(epoch from t.updated_at) * 1000000)::bigint as updated_at_us,
       n.announces or n.mode = 'shadow' as announced, claimable.ready, claimable.names
from unnest($1::uuid[]) as q (id)
join {schema}.task t on t.id = q.id
join {schema}.namespace n on n.id = t.namespace_id
cross join lateral (
    select count(*) as ready, array_agg(distinct d.name) as names
    from {schema}.step s
    join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
    where s.task_id = t.id
      and (s.state = 'ready' and s.due_at < 'infinity' or s.state = 'waiting_for_retry' and s.due_at <= now())
) claimable
