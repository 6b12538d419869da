/* import_carry_messages */
-- Messages to the instances from $1 text to $2 text. Rows: how many.
-- The source delivers what is due in the order it was sent, the target in the order it was due: so no message that is due comes before one
-- sent earlier, whatever the senders' clocks said. What is due later stays due then.
with carried as (
    insert into {schema}.orchestrator_queue (instance_id, visible_at, attempt_count, work_item)
    select replace(q.instance_id, chr(1), chr(1) || '1'),
           case when q.visible_at > now() then q.visible_at
                else max(q.visible_at) filter (where q.visible_at <= now()) over (partition by q.instance_id order by q.id) end,
           q.attempt_count, q.work_item
    from {source}.orchestrator_queue q where q.instance_id between $1 and $2
    order by q.id
    returning 1
)
select count(*) from carried
