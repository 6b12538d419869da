/* operable_steps */
-- The steps that an operation of many is about, in order of their tasks; and with each how many there are, counted up to $13 beyond those.
-- $1 namespace, $2 template, $3 version, $4 state of the task as people see it, $5 name of the definition, $6 text within the step's last error, $7 and $8 created from and before,
-- $9 tasks uuid[]: null for any. $10 states of steps text[]. $11 whether only those that their tasks cannot go on without. $12 rows at most.
-- Index: task_failed if only those, else the primary keys.
select o.id, o.template_id, o.slot, o.part, count(*) over () as matched
from (
    select t.id, t.template_id, s.ordinal, s.slot, s.part
    from {schema}.task t
    join {schema}.namespace n on n.id = t.namespace_id
    join {schema}.template m on m.id = t.template_id
    join {schema}.step s on s.task_id = t.id
    join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
    where t.state in ('o', 'e') and (not $11 or t.failed > 0 and coalesce(d.failure_strategy not in ('c', 'i'), true))
      and ($1::text is null or n.name = $1) and ($2::text is null or m.name = $2) and ($3::text is null or m.version = $3)
      and ($4::text is null or {schema}.public_state(t.id) = $4)
      and ($5::text is null or d.name = $5)
      and ($6::text is null or exists (select from {schema}.attempt a where a.task_id = t.id and a.ordinal = s.ordinal and a.fence = s.fence and strpos(a.error, $6) > 0))
      and ($7::timestamptz is null or t.created_at >= $7) and ($8::timestamptz is null or t.created_at < $8) and ($9::uuid[] is null or t.id = any ($9))
      and s.state::text = any ($10)
    order by t.id, s.ordinal
    limit $12::bigint + $13::bigint
) o
order by o.id, o.ordinal
limit $12
