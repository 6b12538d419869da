-- Copies a message to the dead letters. A deleted message is not copied.
-- retries: how often it was delivered again before.
create or replace function {schema}.bury(
    queue_id integer, partition_id bigint, consumer text, message_offset bigint, error text, retries integer
) returns void
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    insert into {schema}.dead_letter (queue_id, partition_id, consumer, message_offset, message_id, transaction_id,
                                      trace_id, producer, encrypted, payload, error, retries, created_at)
    select bury.queue_id, s.partition_id, bury.consumer, bury.message_offset, s.ids[i.i], s.transaction_ids[i.i],
           s.trace_ids[i.i], s.producers[i.i], s.encrypted, s.payloads[i.i], bury.error, bury.retries, s.created_at
    from (select * from {schema}.segment s
          where s.partition_id = bury.partition_id and s.first_offset <= bury.message_offset
          order by s.first_offset desc limit 1) s
    cross join lateral (select (bury.message_offset - s.first_offset + 1)::integer as i) i
    where s.ids[i.i] is not null;
exception when foreign_key_violation then
    -- The queue is being deleted, and its dead letters with it.
    null;
end
$$;
