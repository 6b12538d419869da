/* task_attempts */
-- A page of the attempts of a step, given by task ($1), definition ($2) and part ($3), with an ordinal from $4 to $5;
-- in order, including one in progress. Skips the first $6. At most $7, and at most $8 bytes of results and errors, but
-- at least one.
-- Rows:  one per attempt, or one without; none if there is no such step. `total`: the number of attempts.
-- Index: primary keys. The times of all attempts are read, and the results of those on the page.
with tried as materialized (
    select s.task_id, s.ordinal, a.*,
           row_number() over (order by coalesce(a.claimed_at, a.ended_at), a.ended_at, a.fence) as nth
    from {schema}.step s
    left join lateral (
        select a.fence, a.attempt, a.outcome, a.worker, a.ready_at, a.claimed_at, a.ended_at
        from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal
        union all
        select s.fence, s.attempt, null::{schema}.attempt_outcome, s.worker, s.ready_at, s.since, null
            where s.state = 'in_progress'
    ) a on true
    where s.task_id = $1 and s.ordinal between $4 and $5 and s.state not in ('not_created', 'skipped')
      and s.slot = $2 and s.part is not distinct from $3
), page as materialized (
    select t.* from tried t where t.nth > $6 order by t.nth limit $7
)
select c.total, r.*
from (select count(t.fence) as total, count(*) as steps from tried t) c
left join lateral (
    select p.fence, p.attempt, coalesce(p.outcome::text, case when p.fence is not null then 'in_progress' end)
        as outcome, p.worker, p.ready_at, p.claimed_at, p.ended_at, p.nth,
           w.result, w.error, w.reason, sum(b.bytes) over fitting as bytes
    from page p
    left join lateral (
        select w.result, w.error, w.reason from {schema}.attempt w
        where w.task_id = p.task_id and w.ordinal = p.ordinal and w.fence = p.fence offset 0
    ) w on true
    cross join lateral (select coalesce(octet_length(w.result), 0) + coalesce(octet_length(w.error), 0) as bytes) b
    window fitting as (order by p.nth)
) r on r.nth = $6 + 1 or r.bytes <= $8
where c.steps > 0
order by r.nth
