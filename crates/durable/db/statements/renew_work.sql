/* renew_work_item_lock */
-- Extends a lease that has not ended, and says that its session is in use. $1 instance text  $2 id bigint  $3 token uuid
-- $4 milliseconds from now bigint
-- Rows:  how many: 1 or 0. As for renew_orchestration_item_lock, its commit need not be flushed.
-- Index: primary key; the row is rewritten in place.
with quick as materialized (select set_config('synchronous_commit', 'off', true)),
renewed as (
    update {schema}.worker_queue q set locked_until = now() + $4 * interval '1 ms' from quick
    where q.instance_id = $1 and q.id = $2 and q.lock_token = $3 and q.locked_until > now() returning q.session_id),
used as (
    update {schema}.sessions s set last_activity_at = now() from renewed r where s.session_id = r.session_id and s.locked_until > now())
select count(*) from renewed
