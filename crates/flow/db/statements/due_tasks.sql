/* due_tasks */
-- Tasks whose lifecycle limits may have passed, at most $1; and in the last row when the next one is due: 0 if there
-- are more.
-- Index: task_due.
(select t.id, null::float8 as next_due_ms
 from {schema}.task t
 where t.due_at <= now() and t.due_at < 'infinity'
 order by t.due_at limit $1)
union all
select null, case
    when exists (
        select from {schema}.task t
        where t.due_at <= now() and t.due_at < 'infinity'
        order by t.due_at offset $1 limit 1) then 0
    else extract(epoch from (
        select t.due_at from {schema}.task t
        where t.due_at > now() and t.due_at < 'infinity'
        order by t.due_at limit 1) - now()) * 1000 end
