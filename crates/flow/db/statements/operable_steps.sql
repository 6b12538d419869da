/* operable_steps */
-- The steps that a bulk operation selects, ordered by task; each with the number of all that match, counted up to $13
-- beyond these. $1 namespace, $2 template, $3 version, $4 public state of the task, $5 name of the definition, $6 text
-- in the step's last error, $7 and $8 created from and before, $9 tasks uuid[]: null for any. $10 states of steps
-- text[]. $11 whether only steps that block their tasks. At most $12 rows.
-- Index: task_failed if only those, else task_listed, a range for each namespace and state; a range for the steps of
--        each task; then primary keys, fenced.
select o.id, o.template_id, o.slot, o.part, count(*) over () as matched
from (
    select t.id, t.template_id, t.ordinal, t.slot, t.part
    from (
        select coalesce((select i.id from unnest($9::uuid[]) as i (id) order by i.id limit 1),
            '00000000-0000-0000-0000-000000000000') as lowest,
               coalesce((select i.id from unnest($9::uuid[]) as i (id) order by i.id desc limit 1),
                   'ffffffff-ffff-ffff-ffff-ffffffffffff') as highest
    ) b
    cross join (select n.id from {schema}.namespace n where $1::text is null or n.name = $1 offset 0) n
    cross join unnest('{open,error}'::{schema}.task_state[]) as w (state)
    cross join lateral (
        select t.id, t.template_id, s.ordinal, s.slot, s.part
        from {schema}.task t
        cross join lateral (
            select s.ordinal, s.slot, s.part, s.fence from {schema}.step s where s.task_id = t.id
                and s.state = any ($10::text[]::{schema}.step_state[]) offset 0
        ) s
        cross join lateral (
            select d.name, d.failure_strategy from {schema}.definition d where d.template_id = t.template_id
                and d.ordinal = s.slot offset 0
        ) d
        -- Written such that only task_listed has this order.
        where (t.namespace_id, t.state, t.id) >= (n.id, w.state, b.lowest) and (t.namespace_id, t.state,
            t.id) <= (n.id, w.state, b.highest) and (not $11 or t.failed > 0) and ($9::uuid[] is null
            or t.id = any ($9))
          and ($7::timestamptz is null or t.created_at >= $7) and ($8::timestamptz is null or t.created_at < $8)
          and ($2::text is null and $3::text is null or t.template_id = any (array(
              select m.id from {schema}.template m where ($2::text is null or m.name = $2) and ($3::text is null
                  or m.version = $3))))
          and ($4::text is null or {schema}.public_state(t.id) = $4)
          and (not $11 or coalesce(d.failure_strategy not in ('continue_on_failure', 'isolate'), true))
              and ($5::text is null or d.name = $5)
          and ($6::text is null or exists (
              select from {schema}.attempt a where a.task_id = t.id and a.ordinal = s.ordinal and a.fence = s.fence
                  and strpos(a.error, $6) > 0))
        order by t.namespace_id, t.state, t.id, s.ordinal
        limit $12::bigint + $13::bigint
    ) t
    order by t.id, t.ordinal
    limit $12::bigint + $13::bigint
) o
order by o.id, o.ordinal
limit $12
