/* attempts_of_task */
-- A page of the attempts of all steps of a task ($1), without their results, including those in progress: after the one
-- with an ordinal ($2) and fence ($3), at most $4.
-- Rows:  one per attempt.
-- Index: primary keys; a range for the attempts, and one for the steps in progress.
select a.ordinal, a.fence, s.slot, s.part, a.attempt, a.outcome, a.worker, a.ready_at, a.claimed_at, a.ended_at,
       null::text as reason, null::text as result, null::text as error
from (
    (select a.ordinal, a.fence, a.attempt, a.outcome::text as outcome, a.worker, a.ready_at, a.claimed_at, a.ended_at
     from {schema}.attempt a
     where a.task_id = $1 and (a.ordinal, a.fence) > ($2, $3)
     order by a.ordinal, a.fence limit $4)
    union all
    (select s.ordinal, s.fence, s.attempt, 'in_progress', s.worker, s.ready_at, s.since, null
     from {schema}.step s
     where s.task_id = $1 and (s.ordinal, s.fence) > ($2, $3) and s.state = 'in_progress'
     order by s.ordinal, s.fence limit $4)
) a
cross join lateral (
    select s.slot, s.part from {schema}.step s where s.task_id = $1 and s.ordinal = a.ordinal offset 0
) s
order by a.ordinal, a.fence
limit $4
