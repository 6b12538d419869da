/* import_copy_messages */
-- Copies the messages to the instances from $1 text to $2 text. Rows: how many.
-- The source delivers due messages in the order they were sent, the target in the order they were due. So no due
-- message gets a time before that of one sent earlier, whatever the clocks of the senders were. Future messages keep
-- their time.
with copied as (
    insert into {schema}.orchestrator_queue (instance_id, visible_at, attempt_count, work_item)
    select replace(source.instance_id, chr(1), chr(1) || '1'),
           case
               when source.visible_at > now() then source.visible_at
               else max(source.visible_at) filter (where source.visible_at <= now())
                   over (partition by source.instance_id order by source.id)
           end,
           source.attempt_count,
           source.work_item
    from {source}.orchestrator_queue source
    where source.instance_id between $1 and $2
    order by source.id
    returning 1
)
select count(*) from copied
