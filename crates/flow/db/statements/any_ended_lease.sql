/* any_ended_lease */
-- Whether the engine has to end a lease.
-- Index: step_due_in_queue of queue 0.
select exists (select from {schema}.step s where s.queue_id = 0 and s.due_at <= now())
