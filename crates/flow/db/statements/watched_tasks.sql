/* watched_tasks */
-- Which of these tasks ($1) may have something to tell: those that have ended, and those of which every move is told ($2) and that have moved lately.
-- Rows:  their places, from zero.
-- Index: primary keys; a range for the steps of those of which every move is told.
select (w.place - 1)::integer
from unnest($1::uuid[], $2::boolean[]) with ordinality as w (task_id, moves, place)
join {schema}.task t on t.id = w.task_id
where t.state <> 'o'
   or w.moves and (t.updated_at > now() - interval '10 minutes' or exists (select from {schema}.step s where s.task_id = t.id and s.since > now() - interval '10 minutes'))
