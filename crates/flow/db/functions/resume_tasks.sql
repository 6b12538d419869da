-- Takes up the scheduling of tasks again in which no failure is left: what could run is due now, and what is under way
-- can be claimed again if its worker dies.
-- Locks: the caller has those of the tasks; it waits for whoever claims or renews one of their steps.
-- Cost:  the steps of these tasks, once.
create or replace function {schema}.resume_tasks(tasks uuid[]) returns void
language sql volatile set search_path = reveille_own
as $$
    update {schema}.step s
    set due_at = case s.state when 'i' then s.due_at else now() end, state = case s.state when 'p' then 'r' else s.state end, lane_id = n.lane_id,
        ready_at = case s.state when 'i' then s.ready_at else now() end, since = case s.state when 'p' then now() else s.since end
    from (
        select o.task_id, o.ordinal, d.max_attempts, d.timeout_ms, l.id as lane_id, l.space_limit_id is null and l.name_limit_id is null as unlimited
        from {schema}.task t
        cross join lateral (select o.task_id, o.ordinal, o.slot from {schema}.step o where o.task_id = t.id and o.state in ('p', 'r', 'w', 'i') offset 0) o
        cross join lateral (select d.name, d.max_attempts, d.timeout_ms from {schema}.definition d where d.template_id = t.template_id and d.ordinal = o.slot offset 0) d
        cross join lateral (select l.* from {schema}.step_lane l where l.namespace_id = t.namespace_id and l.name = d.name and l.priority = t.priority offset 0) l
        where t.id = any (tasks) and t.failed = 0 and t.state = 'o'
        offset 0
    ) n
    where s.task_id = n.task_id and s.ordinal = n.ordinal
      and (s.due_at = 'infinity' and (s.state in ('p', 'r') and s.waiting = 0 or s.state = 'w') or s.state = 'i' and s.lane_id = 0 and s.attempt < n.max_attempts and n.unlimited and coalesce(s.due_at < s.since + n.timeout_ms * interval '1 ms', true))
$$;
