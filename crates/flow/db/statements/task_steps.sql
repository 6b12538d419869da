/* task_steps */
-- The state of a task ($1), the number of its steps by state, and a page of its steps, in one snapshot. The page has
-- the steps after a definition ($2) and part ($3; 0: none), ordered by definition and part: at most $4, and at most $5
-- bytes of values, but at least one step. Only ordinals from $6 to $7 are read; the counts are of these.
-- Rows:  one per created step of the page, or one without a step. `rest`: the number of steps after $2 and $3.
-- Index: primary keys; a range for the steps. Of the page only, results, errors, inputs and checkpoints are read,
--        fenced: see docs/decisions/0024-fenced-lookups.md.
-- Pages: beside 1 000 000 tasks, of a task of 10 000 steps the first 1 000 take 21 564 (all of them took 129 564), and
--        one by its position 21 (9 576).
with seen as materialized (
    select s.task_id, s.ordinal, s.slot, s.part, s.state, s.attempt, s.worker, s.ready_at, s.since, s.due_at, s.fence
    from {schema}.step s
    where s.task_id = $1 and s.ordinal between $6 and $7 and s.state not in ('not_created', 'skipped')
), page as materialized (
    select s.* from seen s where (s.slot, coalesce(s.part, 0)) > ($2, $3) order by s.slot, s.part limit $4
)
select t.state::text as task_state, t.updated_at, t.ended_at as task_ended_at, c.*, p.*
from {schema}.task t
cross join lateral (
    select count(*) as total,
           count(*) filter (where s.state = 'pending') as pending,
           count(*) filter (where s.state = 'ready' or s.state = 'waiting_for_retry' and s.due_at <= now()) as ready,
           count(*) filter (where s.state = 'in_progress') as in_progress,
           count(*) filter (where s.state = 'waiting_for_retry' and s.due_at > now()) as waiting_for_retry,
           count(*) filter (where s.state in ('complete', 'resolved_manually')) as complete,
           count(*) filter (where s.state = 'error' and d.failure_strategy is distinct from 'continue_on_failure'
               and d.failure_strategy is distinct from 'isolate') as failed,
           count(*) filter (where s.state = 'cancelled' or d.failure_strategy in ('continue_on_failure', 'isolate'))
               as dropped,
           count(*) filter (where (s.slot, coalesce(s.part, 0)) > ($2, $3)) as rest
    from seen s
    left join lateral (
        select d.failure_strategy from {schema}.definition d
        where s.state = 'error' and d.template_id = t.template_id and d.ordinal = s.slot offset 0
    ) d on true
) c
left join lateral (
    select r.* from (
        select s.slot, s.part, s.state::text as state, s.attempt, s.worker, s.ready_at, s.since,
               s.due_at <= now() as due, case when s.due_at < 'infinity' then s.due_at end as due_at,
               l.claimed_at, e.error, r.result, x.input, x.checkpoint, row_number() over fitting as nth,
               sum(b.bytes) over fitting as bytes
        from page s
        left join lateral (
            select x.input, x.checkpoint from {schema}.step_data x
            where x.task_id = s.task_id and x.ordinal = s.ordinal offset 0
        ) x on true
        left join lateral (
            select r.result from {schema}.attempt r
            where r.task_id = s.task_id and r.ordinal = s.ordinal and r.fence = s.fence and r.result is not null
            offset 0
        ) r on true
        left join lateral (
            select a.claimed_at from {schema}.attempt a
            where a.task_id = s.task_id and a.ordinal = s.ordinal and a.claimed_at is not null
            order by a.ended_at desc, a.fence desc limit 1
        ) l on true
        left join lateral (
            select a.error from {schema}.attempt a
            where a.task_id = s.task_id and a.ordinal = s.ordinal and a.error is not null
            order by a.ended_at desc, a.fence desc limit 1
        ) e on true
        cross join lateral (
            select coalesce(octet_length(r.result), 0) + coalesce(octet_length(e.error), 0)
                 + coalesce(octet_length(x.input), 0) + coalesce(octet_length(x.checkpoint), 0) as bytes
        ) b
        window fitting as (order by s.slot, s.part)
    ) r
    where r.nth = 1 or r.bytes <= $5
) p on true
where t.id = $1
order by p.nth
