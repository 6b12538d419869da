/* expired_tasks */
-- Whether there are tasks whose retention is over, or rows of removed tasks; and in the last row when the retention of
-- the next task is over. If no task has ended, that is the retention of a task that would end now.
-- Rows:  one if there are, at most $1; then one with only next_due_ms.
-- Index: task_ended, the first of each namespace and state; removed_task. So it reads as much beside a million ended
--        tasks as beside a few: retention::looking_for_expired_tasks_reads_a_few_pages.
with first as materialized (
    select least(t.ended_at, now()) + k.keep_s * interval '1 s' as due_at
    from {schema}.namespace n
    cross join lateral (
        select state, case state when 'error' then n.failed_retention_s else n.retention_s end as keep_s
        from unnest('{complete,error,cancelled,resolved_manually}'::{schema}.task_state[]) as state
    ) k
    left join lateral (
        select t.ended_at from {schema}.task t
        where t.namespace_id = n.id and t.state = k.state and t.ended_at is not null order by t.ended_at limit 1
    ) t on true
    where k.keep_s is not null
)
(select true as due, null::float8 as next_due_ms
 where exists (select from first f where f.due_at <= now()) or exists (select from {schema}.removed_task)
 limit $1)
union all
select null, (select greatest(extract(epoch from min(f.due_at) - now()) * 1000, 0) from first f having count(*) > 0)
