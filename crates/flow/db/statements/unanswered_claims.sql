/* unanswered_claims */
-- The steps of claims ($1) whose answers were never received.
-- Index: step_due_in_queue, all leased steps: rare.
select s.task_id, s.ordinal, s.fence
from {schema}.step s
where s.due_at > now() and s.due_at < 'infinity' and s.state = 'in_progress' and s.fence = any ($1)
