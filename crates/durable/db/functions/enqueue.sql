-- Sends messages to instances, each visible after its delay. Rings nobody: see `ring`.
-- Locks: none. Two senders to one instance do not know of each other, and an instance that is being worked on is not disturbed.
create or replace function {schema}.enqueue(instances text[], delays_ms bigint[], items text[]) returns void
language plpgsql set search_path = reveille_own
as $$
begin
    -- A microsecond apart, so that the order by due time is the order given.
    insert into {schema}.orchestrator_queue (instance_id, visible_at, work_item)
    select m.instance, now() + m.delay_ms * interval '1 ms' + m.place * interval '1 us', m.item
    from unnest(instances, delays_ms, items) with ordinality as m (instance, delay_ms, item, place)
    order by m.place;
end
$$;
