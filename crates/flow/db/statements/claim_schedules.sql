/* claim_schedules */
-- Claims the schedules that are due, $1 at most. The last row has null but for next_due_ms: when the next one is due.
-- Lease: ten seconds. If the server dies, another one claims the schedule then; a claim is never given back.
-- Locks: the schedules, skip locked.
-- Index: schedule_due.
with due as materialized (
    select s.id from {schema}.schedule s
    where s.due_at <= now() and s.due_at < 'infinity'
    order by s.due_at
    limit $1 for update skip locked
), claimed as (
    update {schema}.schedule s set due_at = now() + interval '10 s' from due where s.id = due.id returning s.*
)
select now() as asked_at, null::float8 as next_due_ms, s.id, n.name as namespace, s.name, s.template_name,
       s.template_version, s.context, s.priority, s.tags, s.cron, s.time_zone, s.at, s.missed::text, s.grace_seconds,
       s.paused, s.version, nullif(s.next_at, 'infinity') as next_at, s.last_at, s.last_task, s.last_error,
       s.created_at, s.updated_at
from claimed s
join {schema}.namespace n on n.id = s.namespace_id
union all
select now(), extract(epoch from (
           select s.due_at from {schema}.schedule s
           where s.due_at < 'infinity' and s.id not in (select due.id from due)
           order by s.due_at limit 1) - now()) * 1000,
       null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null, null,
       null, null
