-- Locks limits, for a claim. Answers whether all are locked.
-- in_write: the claim is part of a write, which may hold limits that it has freed: if it waited for others, that could
--           be a deadlock. So it skips those that are locked.
-- Locks: the limits, in order.
create or replace function {schema}.lock_limits(limits integer[], in_write boolean) returns boolean
language plpgsql volatile
as $$
begin
    if in_write then
        return (
            select count(locked.id) from (
                select m.id from {schema}.step_limit m where m.id = any (limits) order by m.id for update skip locked
            ) locked
        ) = (select count(*) from {schema}.step_limit m where m.id = any (limits));
    end if;
    perform from {schema}.step_limit m where m.id = any (limits) order by m.id for update;
    return true;
end
$$;
