/* operable_tasks */
-- The tasks that a bulk operation selects, in order; each with the number of all that match, counted up to $12 beyond
-- these. $1 namespace, $2 template, $3 version, $4 public state, $5 name of a definition that has a step, $6 text in
-- the last error of a step, $7 and $8 created from and before, $9 tasks uuid[]: null for any. $10 states text[]. At
-- most $11 rows.
-- Index: task_listed, a range for each namespace and state; then primary keys, fenced. 200 open tasks among 1 000 000:
--        211 pages, where 23 601 were read with the state as a text.
select o.id, count(*) over () as matched
from (
    select t.id
    from (
        select coalesce((select i.id from unnest($9::uuid[]) as i (id) order by i.id limit 1),
            '00000000-0000-0000-0000-000000000000') as lowest,
               coalesce((select i.id from unnest($9::uuid[]) as i (id) order by i.id desc limit 1),
                   'ffffffff-ffff-ffff-ffff-ffffffffffff') as highest
    ) b
    cross join (select n.id from {schema}.namespace n where $1::text is null or n.name = $1 offset 0) n
    cross join unnest($10::text[]) as w (state)
    cross join lateral (
        select t.id from {schema}.task t
        -- Written such that only task_listed has this order.
        where (t.namespace_id, t.state, t.id) >= (n.id, w.state::{schema}.task_state, b.lowest)
            and (t.namespace_id, t.state,
            t.id) <= (n.id, w.state::{schema}.task_state, b.highest) and ($9::uuid[] is null or t.id = any ($9))
          and ($7::timestamptz is null or t.created_at >= $7) and ($8::timestamptz is null or t.created_at < $8)
          and ($2::text is null and $3::text is null or t.template_id = any (array(
              select m.id from {schema}.template m where ($2::text is null or m.name = $2) and ($3::text is null
                  or m.version = $3))))
          and ($4::text is null or {schema}.public_state(t.id) = $4)
          and ($5::text is null and $6::text is null or exists (
              select from {schema}.step s
              cross join lateral (select d.name from {schema}.definition d where d.template_id = t.template_id
                  and d.ordinal = s.slot offset 0) d
              where s.task_id = t.id and s.state not in ('not_created', 'skipped') and ($5 is null or d.name = $5)
                and ($6 is null or exists (
                    select from {schema}.attempt a where a.task_id = t.id and a.ordinal = s.ordinal
                        and a.fence = s.fence and strpos(a.error, $6) > 0))))
        order by t.namespace_id, t.state, t.id
        limit $11::bigint + $12::bigint
    ) t
    order by t.id
    limit $11::bigint + $12::bigint
) o
order by o.id
limit $11
