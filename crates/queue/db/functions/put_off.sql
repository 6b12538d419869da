-- Puts off what is due and has nothing to read, each until it has; the cursors are locked by the caller. Answers when the first has: now, if somebody pushes there this moment.
create or replace function {schema}.put_off(own integer, partitions bigint[], delayed_seconds integer, window_seconds integer) returns timestamptz
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    mine    record;
    due     timestamptz;
    soonest timestamptz := 'infinity';
begin
    for mine in
        select n.* from unnest(partitions) as p (id)
        cross join lateral (select c.* from {schema}.cursor c where c.partition_id = p.id and c.consumer_id = own order by c.version desc limit 1) n
    loop
        due := {schema}.due_after(mine.partition_id, mine.position, delayed_seconds, window_seconds);
        if due > now() or mine.lease_id is not null then
            update {schema}.cursor c set version = c.version + 1, due_at = due, lease_id = null, lease_end = null
            where c.partition_id = mine.partition_id and c.consumer_id = own and c.version = mine.version;
        end if;
        soonest := least(soonest, due);
    end loop;
    return soonest;
end
$$;
