/* any_due_schedule */
-- Whether a schedule is due.
-- Index: schedule_due.
select exists (select from {schema}.schedule s where s.due_at <= now() and s.due_at < 'infinity')
