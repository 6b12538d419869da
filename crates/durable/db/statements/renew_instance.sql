/* renew_orchestration_item_lock */
-- Extends a lease that has not expired. $1 instance text  $2 token uuid  $3 milliseconds from now bigint
-- Rows:  how many: 1 or 0.
-- Commit: synchronous_commit = off: a renewal lost in a server crash is a lease that expires sooner.
-- Index: primary key; a HOT update.
with asynchronous as materialized (
    select set_config('synchronous_commit', 'off', true)
), renewed as (
    update {schema}.instance_locks lease set locked_until = now() + $3 * interval '1 ms'
    from asynchronous
    where lease.instance_id = $1 and lease.lock_token = $2 and lease.locked_until > now()
    returning 1
)
select count(*) from renewed
