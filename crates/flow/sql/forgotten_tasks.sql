/* forgotten_tasks */
-- Tasks of some namespaces ($1) with steps that could be claimed for longer than `longer` ($2, milliseconds) and nobody has: $3 at most, those of a higher priority first, with the names of those steps.
-- Namespaces whose fallback is off, and steps that a limit holds back, are left out.
-- Index: step_due of each lane.
select t.id, n.name as namespace, t.priority, t.state::text as state, (extract(epoch from t.updated_at) * 1000000)::bigint as updated_at_us, count(*) as ready, array_agg(distinct l.name) as names
from {schema}.namespace n
join {schema}.step_lane l on l.namespace_id = n.id
cross join lateral (
    select s.task_id, s.due_at from {schema}.step s
    where s.lane_id = l.id and s.due_at <= now() - $2::bigint * interval '1 ms' and s.due_at < 'infinity'
    order by s.due_at limit $3
) s
join {schema}.task t on t.id = s.task_id
where n.name = any ($1) and n.fallback
  and not exists (select from {schema}.step_limit m where m.id in (l.space_limit_id, l.name_limit_id) and m.running >= m.most)
group by t.id, n.name
order by t.priority desc, min(s.due_at)
limit $3
