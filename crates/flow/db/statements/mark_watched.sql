/* mark_watched */
-- Has whoever changes a task ($1) ring, for a while ($2, in milliseconds) or twice that. Nothing is written if somebody else has seen to it, or if it has ended.
-- Rows:  one, if there is such a task.
-- Locks: the task's, if it is written; after that every change rings or was there before.
with marked as (
    update {schema}.task t set watched_until = now() + 2 * $2::bigint * interval '1 ms'
    where t.id = $1 and t.state = 'o' and coalesce(t.watched_until, '-infinity') < now() + $2::bigint * interval '1 ms'
)
select 1 from {schema}.task t where t.id = $1
