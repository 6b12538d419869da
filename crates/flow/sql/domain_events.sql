/* domain_events */
-- What steps told, in order, after a transaction ($1) and number ($2); of a namespace ($3), of these names ($4), $5 at most. Only what nothing can come before any more.
-- Index: the primary key forwards.
select e.transaction_id::text as transaction_id, e.id, e.task_id, n.name as namespace, p.name as template, p.version, k.correlation_id, e.name, e.succeeded, e.payload, e.created_at,
       d.name || case when s.part is null then '' else '_' || to_char(s.part, 'FM9999000') end as step
from {schema}.domain_event e
join {schema}.task t on t.id = e.task_id
join {schema}.task_detail k on k.task_id = e.task_id
join {schema}.template p on p.id = t.template_id
join {schema}.namespace n on n.id = t.namespace_id
join {schema}.step s on s.task_id = e.task_id and s.ordinal = e.ordinal
join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
where (e.transaction_id, e.id) > ($1::text::xid8, $2) and e.transaction_id < pg_snapshot_xmin(pg_current_snapshot())
  and ($3::text is null or n.name = $3) and ($4::text[] is null or e.name = any ($4))
order by e.transaction_id, e.id
limit $5
