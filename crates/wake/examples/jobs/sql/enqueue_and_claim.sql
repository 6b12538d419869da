/* enqueue_and_claim */
-- Adds jobs, then claims for waiters of one queue. $1–$7 as enqueue; $8 wanted_queue text  $9 wanted integer
-- $10 lease_ms bigint. The claim depends on the result of `enqueue`, so that it runs after it and sees its jobs.
select enqueued.outcomes, enqueued.backend, claimed.*
from {schema}.enqueue($1, $2, $3, $4, $5, $6, $7) as enqueued
cross join lateral {schema}.claim($8, $9, $10, in_write => enqueued.backend is not null) as claimed
