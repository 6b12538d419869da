-- Brings back the steps of a task that were cancelled because it took too long: they are pending again, with all their
-- attempts. The history keeps both: when each was cancelled, and who brought it back.
-- target: the step that the caller operates on. The caller writes what became of that one.
-- Locks:  the caller has those of the task and of these steps.
-- Cost:   the steps of the task, once.
create or replace function {schema}.revive_steps(of_task uuid, target integer, who text, why text) returns void
language sql volatile set search_path = reveille_own
as $$
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ended_at, reason)
    select s.task_id, s.ordinal, f.lowest - n.below, s.attempt, n.outcome::"char", n.worker, n.ended_at, n.reason
    from {schema}.step s
    cross join lateral (
        select least(0, min(a.fence)) as lowest
        from {schema}.attempt a where a.task_id = s.task_id and a.ordinal = s.ordinal
    ) f
    cross join lateral (
        values (1, 'x', null, s.since, null), (2, 'r', who, now(), why)
    ) as n (below, outcome, worker, ended_at, reason)
    where s.task_id = of_task and s.state = 'x' and (s.ordinal <> target or n.outcome = 'x');
    update {schema}.step s
    set state = 'p', due_at = 'infinity', since = now(), attempt = 0, published = null
    where s.task_id = of_task and s.state = 'x'
$$;
