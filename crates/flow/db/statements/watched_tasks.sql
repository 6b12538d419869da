/* watched_tasks */
-- Which of these tasks ($1) may have changed: those that have ended, and those whose every change is watched ($2) and
-- that changed lately.
-- Rows:  their positions, from zero.
-- Index: primary keys; a range for the steps of those whose every change is watched.
select (w.index - 1)::integer
from unnest($1::uuid[], $2::boolean[]) with ordinality as w (task_id, every_change, index)
join {schema}.task t on t.id = w.task_id
where t.state <> 'open'
   or w.every_change and (t.updated_at > now() - interval '10 minutes' or exists (
       select from {schema}.step s where s.task_id = t.id and s.since > now() - interval '10 minutes'))
