/* bottlenecks */
-- Where these tasks ($1) spent their time that were made since a time ($2), by step: those that took longest altogether first, $4 at most. Of their attempts $3 at most are looked at.
-- Index: primary keys; a range for the attempts of each.
with tried as materialized (
    select t.template_id, s.slot, a.outcome, greatest(extract(epoch from a.claimed_at - a.ready_at), 0) * 1000 as waited, extract(epoch from a.ended_at - a.claimed_at) * 1000 as took
    from unnest($1::uuid[]) as i (id)
    join {schema}.task t on t.id = i.id
    join {schema}.attempt a on a.task_id = t.id
    join {schema}.step s on s.task_id = a.task_id and s.ordinal = a.ordinal
    where t.created_at >= $2 and a.claimed_at is not null and a.ready_at is not null
    limit $3
)
select n.name as namespace, p.name as template, p.version, d.name as step, w.*
from (
    select t.template_id, t.slot, count(*) as attempts, count(*) filter (where t.outcome in ('f', 'e', 'l')) as failed,
           percentile_cont(array[0.5, 0.95]) within group (order by t.waited::float8) as waited, percentile_cont(array[0.5, 0.95]) within group (order by t.took::float8) as took,
           sum(t.waited)::float8 as all_waited, sum(t.took)::float8 as all_took
    from tried t group by t.template_id, t.slot
) w
join {schema}.definition d on d.template_id = w.template_id and d.ordinal = w.slot
join {schema}.template p on p.id = w.template_id
join {schema}.namespace n on n.id = p.namespace_id
order by w.all_waited + w.all_took desc, n.name, p.name, p.id, w.slot
limit $4
