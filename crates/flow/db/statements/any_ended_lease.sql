/* any_ended_lease */
-- Whether the lease of a last attempt has ended.
-- Index: step_due of lane 0.
select exists (select from {schema}.step s where s.lane_id = 0 and s.due_at <= now())
