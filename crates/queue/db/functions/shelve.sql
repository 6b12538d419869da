-- Keeps messages until the maintenance of pushes ends. False: it has ended. What is kept twice is pushed once: the second is a duplicate.
-- Locks: the switch, shared, so that it does not end meanwhile.
create or replace function {schema}.shelve(
    queue text, partition text, encrypted boolean, ids uuid[], transaction_ids text[], trace_ids text[], producers text[], bodies bytea[]
) returns boolean
language plpgsql volatile set search_path = reveille_own
as $$
begin
    perform from {schema}.maintenance m where m.name = 'push' and m.enabled for share;
    if not found then
        return false;
    end if;
    insert into {schema}.buffered (queue, partition, encrypted, message_id, transaction_id, trace_id, producer, payload)
    select shelve.queue, shelve.partition, shelve.encrypted, m.id, m.transaction_id, m.trace_id, m.producer, m.body
    from unnest(ids, transaction_ids, trace_ids, producers, bodies) with ordinality as m (id, transaction_id, trace_id, producer, body, place)
    order by m.place;
    return true;
end
$$;
