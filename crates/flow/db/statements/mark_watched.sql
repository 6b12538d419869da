/* mark_watched */
-- Marks a task ($1) as watched: every change notifies for $2 milliseconds, or twice that. Nothing is written if the
-- mark of another client lasts long enough, or if the task has ended.
-- Rows:  one, if there is such a task.
-- Locks: the task's, if it is written; a change after that notifies, and one before it is seen by the client.
with marked as (
    update {schema}.task t
    set watched_until = now() + 2 * $2::bigint * interval '1 ms'
    where t.id = $1 and t.state = 'open'
      and coalesce(t.watched_until, '-infinity') < now() + $2::bigint * interval '1 ms'
)
select 1 from {schema}.task t where t.id = $1
