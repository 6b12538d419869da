/* sweep_instances */
-- Whether any instance has a due message and no lease.
-- Index: orchestrator_queue_due; one lookup in instance_locks per due message of a leased instance.
select exists (
    select from {schema}.orchestrator_queue message
    where message.visible_at <= now()
      and coalesce((
          select lease.locked_until from {schema}.instance_locks lease where lease.instance_id = message.instance_id
      ), '-infinity') <= now()
)
