/* mark_watched */
-- Has whoever changes a task ($1), or only whoever ends it ($3 is false), ring, for a while ($2, in milliseconds) or twice that. Nothing is written if somebody else has seen to it, or if it
-- has ended.
-- Rows:  one, if there is such a task.
-- Locks: the task's, if it is written; after that every such change rings or was there before.
with marked as (
    update {schema}.task t
    set watched_until = case when $3 then now() + 2 * $2::bigint * interval '1 ms' else t.watched_until end,
        awaited_until = case when $3 then t.awaited_until else now() + 2 * $2::bigint * interval '1 ms' end
    where t.id = $1 and t.state = 'o' and coalesce(case when $3 then t.watched_until else t.awaited_until end, '-infinity') < now() + $2::bigint * interval '1 ms'
)
select 1 from {schema}.task t where t.id = $1
