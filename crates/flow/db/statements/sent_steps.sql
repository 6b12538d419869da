/* sent_steps */
-- Sets when sent steps ($1: tasks, $2: ordinals, $3: numbers of their messages) are sent again if they are still
-- unclaimed: after $4 milliseconds, or as long again as they have been ready. Until now they were leased to the
-- publisher, for seconds: see functions/publish_steps.sql.
-- Locks:  the steps, skip locked: a step that another transaction has locked is being claimed, or sent twice.
-- Index:  the primary key.
-- Commit: synchronous. If a crash loses it, the steps are sent again.
with mine as materialized (
    select s.task_id, s.ordinal
    from unnest($1::uuid[], $2::integer[], $3::bigint[]) as n (task_id, ordinal, number)
    cross join lateral (
        select s.task_id, s.ordinal from {schema}.step s
        where s.task_id = n.task_id and s.ordinal = n.ordinal and s.published = n.number and s.state = 'ready'
            and s.due_at < 'infinity'
        for update skip locked
    ) s
)
update {schema}.step s
set due_at = now() + greatest($4::bigint * interval '1 ms', now() - s.ready_at)
from mine m
where s.task_id = m.task_id and s.ordinal = m.ordinal
