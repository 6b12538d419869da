/* renew_work_item_lock */
-- Extends a lease that has not expired, and marks its session as in use. $1 instance text  $2 id bigint  $3 token uuid
-- $4 milliseconds from now bigint
-- Rows:  how many: 1 or 0.
-- Commit: synchronous_commit = off, as in renew_instance.
-- Index: primary key; a HOT update.
with asynchronous as materialized (
    select set_config('synchronous_commit', 'off', true)
), renewed as (
    update {schema}.worker_queue activity set locked_until = now() + $4 * interval '1 ms'
    from asynchronous
    where activity.instance_id = $1
      and activity.id = $2
      and activity.lock_token = $3
      and activity.locked_until > now()
    returning activity.session_id
), used as (
    update {schema}.sessions session set last_activity_at = now()
    from renewed
    where session.session_id = renewed.session_id and session.locked_until > now()
)
select count(*) from renewed
