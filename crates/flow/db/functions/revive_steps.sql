-- Brings back the steps of a task that were cancelled because it was late: they are pending again, with all their
-- attempts. The history keeps both: when each was cancelled, and which operator brought it back.
-- target: the step that the caller operates on. The caller writes the entry of that one.
-- Locks:  the caller holds those of the task and of these steps.
-- Cost:   the steps of the task, once.
create or replace function {schema}.revive_steps(of_task uuid, target integer, operator text, reason text) returns void
language sql volatile set search_path = reveille_own
as $$
    insert into {schema}.attempt (task_id, ordinal, fence, attempt, outcome, worker, ended_at, reason)
    select s.task_id, s.ordinal, f.lowest - entry.below, s.attempt, entry.outcome::{schema}.attempt_outcome,
           entry.worker, entry.ended_at, entry.reason
    from {schema}.step s
    cross join lateral (
        select least(0, min(a.fence)) as lowest
        from {schema}.attempt a
        where a.task_id = s.task_id and a.ordinal = s.ordinal
    ) f
    cross join lateral (
        values (1, 'cancelled', null, s.since, null),
               (2, 'reset', revive_steps.operator, now(), revive_steps.reason)
    ) as entry (below, outcome, worker, ended_at, reason)
    where s.task_id = of_task and s.state = 'cancelled' and (s.ordinal <> target or entry.outcome = 'cancelled');
    update {schema}.step s
    set state = 'pending', due_at = 'infinity', since = now(), attempt = 0, published = null
    where s.task_id = of_task and s.state = 'cancelled'
$$;
