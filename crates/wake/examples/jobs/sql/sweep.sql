/* sweep */
-- Which of these queues have something due. $1 queues text[]  Rows: their places, from zero.
-- Index: job_due (queue, due_at), one probe per queue: 10 000 queues with a million jobs in 41 ms and 30 000 buffers.
select (k.place - 1)::int from unnest($1) with ordinality as k (queue, place)
where exists (select from {schema}.job j where j.queue = k.queue and j.due_at <= now())
