-- Copies a message to the dead letters. A deleted message is not copied.
-- retries: how often it was redelivered before.
create or replace function {schema}.add_dead_letter(
    queue_id integer, partition_id bigint, consumer text, message_offset bigint, error text, retries integer
) returns void
language plpgsql volatile
as $$
#variable_conflict use_column
begin
    insert into {schema}.dead_letter (
        queue_id, partition_id, consumer, message_offset, message_id, transaction_id,
        trace_id, producer, encrypted, payload, error, retries, created_at)
    select add_dead_letter.queue_id, s.partition_id, add_dead_letter.consumer, add_dead_letter.message_offset,
           s.ids[e.n], s.transaction_ids[e.n], s.trace_ids[e.n], s.producers[e.n], s.encrypted, s.payloads[e.n],
           add_dead_letter.error, add_dead_letter.retries, s.created_at
    from (
        select s.*
        from {schema}.segment s
        where s.partition_id = add_dead_letter.partition_id and s.first_offset <= add_dead_letter.message_offset
        order by s.first_offset desc
        limit 1
    ) s
    cross join lateral (select (add_dead_letter.message_offset - s.first_offset + 1)::integer as n) e
    where s.ids[e.n] is not null;
exception when foreign_key_violation then
    -- The queue is being deleted, and its dead letters with it.
    null;
end
$$;
