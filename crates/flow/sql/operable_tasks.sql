/* operable_tasks */
-- The tasks that an operation of many is about, in order; and with each how many there are, counted up to $12 beyond those.
-- $1 namespace, $2 template, $3 version, $4 state as people see it, $5 name of a definition that has a step, $6 text within the last error of a step, $7 and $8 created from and before,
-- $9 tasks uuid[]: null for any. $10 states text[]. $11 rows at most.
-- Index: the primary keys.
select o.id, count(*) over () as matched
from (
    select t.id
    from {schema}.task t
    join {schema}.namespace n on n.id = t.namespace_id
    join {schema}.template m on m.id = t.template_id
    where t.state::text = any ($10)
      and ($1::text is null or n.name = $1) and ($2::text is null or m.name = $2) and ($3::text is null or m.version = $3)
      and ($4::text is null or {schema}.public_state(t.id) = $4)
      and ($5::text is null and $6::text is null or exists (
          select from {schema}.step s
          join {schema}.definition d on d.template_id = t.template_id and d.ordinal = s.slot
          where s.task_id = t.id and s.state not in ('a', 's') and ($5 is null or d.name = $5)
            and ($6 is null or exists (select from {schema}.attempt a where a.task_id = t.id and a.ordinal = s.ordinal and a.fence = s.fence and strpos(a.error, $6) > 0))))
      and ($7::timestamptz is null or t.created_at >= $7) and ($8::timestamptz is null or t.created_at < $8) and ($9::uuid[] is null or t.id = any ($9))
    order by t.id
    limit $11::bigint + $12::bigint
) o
order by o.id
limit $11
