-- Buffers messages until push maintenance ends. False: it has ended. A message that is buffered twice is pushed once:
-- the second is a duplicate.
-- Locks: the maintenance switch, shared, so that maintenance does not end meanwhile.
create or replace function {schema}.buffer_messages(
    queue text, partition text, encrypted boolean,
    ids uuid[], transaction_ids text[], trace_ids text[], producers text[], bodies bytea[]
) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
begin
    perform from {schema}.maintenance m where m.name = 'push' and m.enabled for share;
    if not found then
        return false;
    end if;
    insert into {schema}.buffered (
        queue, partition, encrypted, message_id, transaction_id, trace_id, producer, payload)
    select buffer_messages.queue, buffer_messages.partition, buffer_messages.encrypted,
           m.id, m.transaction_id, m.trace_id, m.producer, m.body
    from unnest(ids, transaction_ids, trace_ids, producers, bodies) with ordinality
        as m (id, transaction_id, trace_id, producer, body, number)
    order by m.number;
    return true;
end
$$;
