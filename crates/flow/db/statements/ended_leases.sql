/* ended_leases */
-- The steps whose leases have ended and that the engine handles, at most $1; and in the last row when the next lease
-- ends: 0 if there are more.
-- Index: step_due_in_queue of queue 0.
(select s.task_id, s.ordinal, s.fence, t.template_id, s.slot, null::float8 as next_due_ms
 from (
     select s.task_id, s.ordinal, s.fence, s.slot from {schema}.step s
     where s.queue_id = 0 and s.due_at <= now()
     order by s.due_at limit $1
 ) s
 join {schema}.task t on t.id = s.task_id)
union all
select null, null, null, null, null, case
    when exists (
        select from {schema}.step s
        where s.queue_id = 0 and s.due_at <= now()
        order by s.due_at offset $1 limit 1) then 0
    else extract(epoch from (
        select s.due_at from {schema}.step s
        where s.queue_id = 0 and s.due_at > now() and s.due_at < 'infinity'
        order by s.due_at limit 1) - now()) * 1000 end
