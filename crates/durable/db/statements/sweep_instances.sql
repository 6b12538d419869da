/* sweep_instances */
-- Whether any instance has something due that nobody works on.
-- Index: orchestrator_queue_due; one probe of instance_locks per message in somebody's hands.
select exists (
    select from {schema}.orchestrator_queue q
    where q.visible_at <= now()
      and coalesce((select l.locked_until from {schema}.instance_locks l where l.instance_id = q.instance_id), '-infinity') <= now())
