/* renew_orchestration_item_lock */
-- Extends a lease that has not ended. $1 instance text  $2 token uuid  $3 milliseconds from now bigint
-- Rows:  how many: 1 or 0. A renewal lost in a crash of the server is a lease that ends sooner, so its commit need not be flushed.
-- Index: primary key; the row is rewritten in place.
with quick as materialized (select set_config('synchronous_commit', 'off', true)),
renewed as (
    update {schema}.instance_locks l set locked_until = now() + $3 * interval '1 ms' from quick
    where l.instance_id = $1 and l.lock_token = $2 and l.locked_until > now() returning 1)
select count(*) from renewed
