/* lost_claims */
-- The steps of claims ($1) whose answers were never heard.
-- Index: step_due, what is leased in every lane: rare.
select s.task_id, s.ordinal, s.fence from {schema}.step s where s.due_at > now() and s.due_at < 'infinity' and s.state = 'i' and s.fence = any ($1)
