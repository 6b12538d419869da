/* find_unstarted */
-- Instances that were started and have not run yet, the first that was started first: no runtime has claimed them.
-- $1 name text  $2 the beginning of the id text; null: any
-- $3, $4 after this due time and message timestamptz, bigint
-- $5 at most so many bigint  $6 scan at most so many messages bigint
-- Rows:  the name as JSON text, as the message contains it.
-- Index: orchestrator_queue_due forwards; primary key of instances.
select start.instance_id, start.name, start.visible_at, start.id, start.attempt_count
from (
    select message.instance_id, message.visible_at, message.id, message.attempt_count, message.kind,
           substring(left(message.work_item, 2000) from '"orchestration"\s*:\s*("(?:[^"\\]|\\.)*")') as name
    from {schema}.orchestrator_queue message
    where message.visible_at <= now()
      and message.visible_at >= $3
      and (message.visible_at, message.id) > ($3, $4)
    order by message.visible_at, message.id
    limit $6
) as start
where start.kind = 'start'
  and ($1::text is null or start.name = to_json($1::text)::text)
  and ($2::text is null or starts_with(start.instance_id, $2))
  and not exists (select from {schema}.instances instance where instance.instance_id = start.instance_id)
order by start.visible_at, start.id
limit $5
