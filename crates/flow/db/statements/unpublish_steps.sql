/* unpublish_steps */
-- Makes steps ($1: tasks, $2: ordinals) due again if their messages ($3: numbers) could not be sent, unless they were
-- claimed meanwhile.
-- Locks: the steps, skip locked: a step that another transaction holds is sent again when its lease ends.
-- Index: the primary key.
with unsent as (
    select s.task_id, s.ordinal
    from unnest($1::uuid[], $2::integer[], $3::bigint[]) as n (task_id, ordinal, number)
    join {schema}.step s
        on s.task_id = n.task_id and s.ordinal = n.ordinal and s.published = n.number and s.state = 'ready'
        and s.due_at < 'infinity'
    for update of s skip locked
)
update {schema}.step s
set due_at = now(), published = null
from unsent
where s.task_id = unsent.task_id and s.ordinal = unsent.ordinal
