/* unpublish_steps */
-- Makes steps ($1: tasks, $2: ordinals) due again whose messages ($3: numbers) could not be sent, unless somebody has them by now.
-- Locks: the steps, skip locked: what somebody has for a moment is sent again when its time comes.
-- Index: the primary key.
with mine as (
    select s.task_id, s.ordinal
    from unnest($1::uuid[], $2::integer[], $3::bigint[]) as n (task_id, ordinal, number)
    join {schema}.step s on s.task_id = n.task_id and s.ordinal = n.ordinal and s.published = n.number and s.state = 'r' and s.due_at < 'infinity'
    for update of s skip locked
)
update {schema}.step s set due_at = now(), published = null from mine m where s.task_id = m.task_id and s.ordinal = m.ordinal
