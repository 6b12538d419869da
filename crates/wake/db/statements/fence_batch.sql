/* fence_batch */
-- Records an attempt whose answer was lost without outcomes, so that it can never commit. $1 id uuid
-- Inserts a row, or none if the attempt has committed. Waits while it is committing.
-- Index: primary key.
insert into {schema}.write_batch (id, outcomes)
values ($1, '{}')
on conflict (id) do nothing
