/* bottlenecks */
-- Where tasks ($1) created since a time ($2) spent their time, by step: the longest total time first, at most $4. Reads
-- at most $3 attempts.
-- Index: primary keys; a range for the attempts of each task. Lookups are fenced: see
--        docs/decisions/0024-fenced-lookups.md. Only parts beyond the first have ordinals other than their
--        definition's, so only their steps are read. 10 000 tasks of 1 000 000, one of 10 000 steps among them: 101 000
--        pages, 0.4 s; a join with all steps read 280 230, and 10 s with the plan of a small table.
with seen as materialized (
    select t.id, t.template_id
    from unnest($1::uuid[]) as i (id)
    cross join lateral (select t.id, t.template_id from {schema}.task t where t.id = i.id and t.created_at >= $2
        offset 0) t
), lengths as materialized (
    select t.template_id, l.ordinal as last
    from (select distinct s.template_id from seen s) t
    left join lateral (
        select d.ordinal from {schema}.definition d where d.template_id = t.template_id order by d.ordinal desc limit 1
    ) l on true
), tried as materialized (
    select t.template_id, case when a.ordinal <= l.last then a.ordinal else s.slot end as slot, a.outcome,
           greatest(extract(epoch from a.claimed_at - a.ready_at), 0) * 1000 as waited, extract(epoch
               from a.ended_at - a.claimed_at) * 1000 as took
    from seen t
    join lengths l on l.template_id = t.template_id
    cross join lateral (
        select a.ordinal, a.outcome, a.claimed_at, a.ready_at, a.ended_at from {schema}.attempt a
        where a.task_id = t.id and a.claimed_at is not null and a.ready_at is not null
        offset 0
    ) a
    left join lateral (
        select s.slot from {schema}.step s where a.ordinal > l.last and s.task_id = t.id and s.ordinal = a.ordinal
            offset 0
    ) s on true
    limit $3
)
select n.name as namespace, p.name as template, p.version, d.name as step, w.*
from (
    select t.template_id, t.slot, count(*) as attempts, count(*)
        filter (where t.outcome in ('failed', 'failed_for_good', 'lease_ended')) as failed,
           percentile_cont(array[0.5, 0.95]) within group (order by t.waited::float8) as waited,
               percentile_cont(array[0.5, 0.95]) within group (order by t.took::float8) as took,
           sum(t.waited)::float8 as all_waited, sum(t.took)::float8 as all_took
    from tried t group by t.template_id, t.slot
    order by sum(t.waited) + sum(t.took) desc, t.template_id, t.slot
    limit $4
) w
cross join lateral (select d.name from {schema}.definition d where d.template_id = w.template_id
    and d.ordinal = w.slot offset 0) d
cross join lateral (select p.id, p.name, p.version, p.namespace_id from {schema}.template p
    where p.id = w.template_id offset 0) p
cross join lateral (select n.name from {schema}.namespace n where n.id = p.namespace_id offset 0) n
order by w.all_waited + w.all_took desc, p.id, w.slot
