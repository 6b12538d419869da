/* forgotten_tasks */
-- Tasks with steps of some namespaces ($1), each of the name beside it ($2; null: all), that could be claimed for longer than `longer` ($3, milliseconds) and nobody has: $4 at most, those of a higher
-- priority first, with the names of those steps. No namespace is there both with and without a name.
-- Namespaces whose fallback is off, and steps that a limit holds back, are left out.
-- Index: step_due of each lane.
select t.id, n.name as namespace, t.priority, t.state::text as state, (extract(epoch from t.updated_at) * 1000000)::bigint as updated_at_us, count(*) as ready, array_agg(distinct l.name) as names
from unnest($1::text[], $2::text[]) as w (namespace, name)
join {schema}.namespace n on n.name = w.namespace
cross join lateral (
    select l.* from {schema}.step_lane l where w.name is not null and l.namespace_id = n.id and l.name = w.name
    union all
    select l.* from {schema}.step_lane l where w.name is null and l.namespace_id = n.id
    offset 0
) l
cross join lateral (
    select s.task_id, s.due_at from {schema}.step s
    where s.lane_id = l.id and s.due_at <= now() - $3::bigint * interval '1 ms' and s.due_at < 'infinity'
    order by s.due_at limit $4
) s
join {schema}.task t on t.id = s.task_id
where n.fallback
  and not exists (select from {schema}.step_limit m where m.id in (l.space_limit_id, l.name_limit_id) and m.running >= m.most)
group by t.id, n.name
order by t.priority desc, min(s.due_at)
limit $4
