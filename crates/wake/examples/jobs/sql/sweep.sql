/* sweep */
-- Which of these queues have something due. $1 queues text[]  Rows: their indexes, from zero.
-- Index: job_due (queue, due_at), one probe per queue: 10 000 queues with a million jobs in 41 ms and 30 000 buffers.
select (wanted.position - 1)::int
from unnest($1) with ordinality as wanted (queue, position)
where exists (
    select from {schema}.job
    where job.queue = wanted.queue and job.due_at <= now()
)
