/* sweep_work */
-- Whether any activity is due that nobody has. $1 lanes text[]; null: all
-- Index: worker_queue_due for each lane.
select exists (
    select from {schema}.worker_queue q
    where ($1::text[] is null or q.lane = any ($1)) and q.visible_at <= now() and (q.locked_until is null or q.locked_until <= now()))
