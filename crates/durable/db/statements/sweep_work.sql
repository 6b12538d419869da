/* sweep_work */
-- Whether any activity is due and not leased. $1 tag_queues text[]; null: all
-- Index: worker_queue_due for each tag queue.
select exists (
    select from {schema}.worker_queue activity
    where ($1::text[] is null or activity.tag_queue = any ($1))
      and activity.visible_at <= now()
      and (activity.locked_until is null or activity.locked_until <= now())
)
