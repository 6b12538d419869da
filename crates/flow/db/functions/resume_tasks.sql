-- Resumes the scheduling of tasks without a permanent failure: steps that could run are due now, and steps in progress
-- return to their own queues, so that a claim takes them over if their worker dies.
-- Locks: the caller holds those of the tasks; waits for claims and renewals of their steps.
-- Cost:  the steps of these tasks, once.
create or replace function {schema}.resume_tasks(tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    update {schema}.step s
    set due_at = case s.state when 'in_progress' then s.due_at else now() end,
        state = case s.state when 'pending' then 'ready' else s.state end,
        queue_id = open.queue_id,
        ready_at = case s.state when 'in_progress' then s.ready_at else now() end,
        since = case s.state when 'pending' then now() else s.since end
    from (
        select o.task_id, o.ordinal, d.max_attempts, d.timeout_ms, q.id as queue_id,
               q.namespace_limit_id is null and q.name_limit_id is null as unlimited
        from {schema}.task t
        cross join lateral (
            select o.task_id, o.ordinal, o.slot from {schema}.step o
            where o.task_id = t.id and o.state in ('pending', 'ready', 'waiting_for_retry', 'in_progress')
            offset 0
        ) o
        cross join lateral (
            select d.name, d.max_attempts, d.timeout_ms from {schema}.definition d
            where d.template_id = t.template_id and d.ordinal = o.slot
            offset 0
        ) d
        cross join lateral (
            select q.* from {schema}.step_queue q
            where q.namespace_id = t.namespace_id and q.name = d.name and q.priority = t.priority
            offset 0
        ) q
        where t.id = any (tasks) and t.failed = 0 and t.state = 'open'
        offset 0
    ) open
    where s.task_id = open.task_id and s.ordinal = open.ordinal
      and (
          s.due_at = 'infinity'
              and (s.state in ('pending', 'ready') and s.open_parents = 0 or s.state = 'waiting_for_retry')
          or s.state = 'in_progress' and s.queue_id = 0 and s.attempt < open.max_attempts and open.unlimited
              and coalesce(s.due_at < s.since + open.timeout_ms * interval '1 ms', true)
      )
$$;
