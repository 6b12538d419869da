/* task_attempts */
-- The attempts at the step of a definition ($2) and part ($3) of a task ($1), the one under way included.
-- Rows:  in order; none if there is no such step, and one without an attempt if nobody has tried it.
-- Index: primary keys.
select a.fence, a.attempt, a.outcome::text as outcome, a.worker, a.ready_at, a.claimed_at, a.ended_at, a.result, a.error, a.reason
from {schema}.step s
left join lateral (
    select a.fence, a.attempt, a.outcome, a.worker, a.ready_at, a.claimed_at, a.ended_at, a.result, a.error, a.reason
    from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal
    union all
    select s.fence, s.attempt, 'i'::"char", s.worker, s.ready_at, s.since, null, null, null, null where s.state = 'i'
) a on true
where s.task_id = $1 and s.state not in ('a', 's') and s.slot = $2 and s.part is not distinct from $3
order by coalesce(a.claimed_at, a.ended_at), a.ended_at, a.fence
