/* investigations */
-- The list of what has to be looked into, newest first: one ($1), or those before a number ($2), of a namespace ($3), a task ($4), for a reason ($5), open or not ($6), $7 at most.
-- Index: the primary key backwards; investigation_task; investigation_open.
select i.id, i.task_id, n.name as namespace, p.name, p.version, i.reason, i.snapshot, i.created_at, i.resolution, i.resolved_by, i.notes, i.resolved_at,
       d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end as step
from {schema}.investigation i
join {schema}.task t on t.id = i.task_id
join {schema}.template p on p.id = t.template_id
join {schema}.namespace n on n.id = t.namespace_id
left join {schema}.step s on s.task_id = i.task_id and s.ordinal = i.ordinal
left join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
where ($1::bigint is null or i.id = $1) and ($2::bigint is null or i.id < $2) and ($3::text is null or n.name = $3) and ($4::uuid is null or i.task_id = $4)
  and ($5::text is null or i.reason = $5) and ($6::boolean is null or (i.resolved_at is null) = $6)
order by i.id desc
limit $7
