/* sweep */
-- Which of these queues have something due. $1 queues text[]  Rows: their places, from zero.
select (k.place - 1)::int from unnest($1) with ordinality as k (queue, place)
where exists (select from {schema}.job j where j.queue = k.queue and j.due_at <= now())
