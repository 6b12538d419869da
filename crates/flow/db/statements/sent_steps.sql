/* sent_steps */
-- Gives steps ($1: tasks, $2: ordinals) whose messages ($3: numbers) have been sent until they are sent again, if
-- nobody has claimed them by then: $4 milliseconds, or as long again as they have been ready. Until this they were
-- leased to who sends them, for seconds: see functions/publish_steps.sql.
-- Locks:  the steps, skip locked: a step that another transaction has locked is being claimed, or sent again in vain.
-- Index:  the primary key.
-- Commit: as everywhere else. A crash that forgets it has the steps sent again.
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
