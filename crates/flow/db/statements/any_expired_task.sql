/* any_expired_task */
-- Whether tasks have ended longer ago than their namespaces keep them, or rows of removed ones are left.
-- Index: task_ended, the first of each namespace and state; removed_task.
select exists (select from {schema}.removed_task) or exists (
    select from {schema}.namespace n
    cross join lateral (
        select state, case state when 'error' then n.failed_retention_s else n.retention_s end as keep_s
        from unnest('{complete,error,cancelled,resolved_manually}'::{schema}.task_state[]) as state
    ) k
    cross join lateral (
        select t.ended_at from {schema}.task t
        where t.namespace_id = n.id and t.state = k.state and t.ended_at is not null order by t.ended_at limit 1
    ) t
    where t.ended_at + k.keep_s * interval '1 s' <= now())
