/* renew_session_lock */
-- Extends sessions that are in use. $1 owners text[]  $2 milliseconds from now bigint
-- $3 idle after milliseconds bigint
-- Rows:  one: how many were extended, and whether these owners have any session.
-- Locks: in order of the sessions, like an ack of several activities.
-- Index: sessions_worker; primary key.
with in_use as materialized (
    select session.session_id from {schema}.sessions session
    where session.worker_id = any ($1)
      and session.locked_until > now()
      and session.last_activity_at > now() - $3 * interval '1 ms'
    order by session.session_id
    for update
), renewed as (
    update {schema}.sessions session set locked_until = now() + $2 * interval '1 ms'
    from in_use
    where session.session_id = in_use.session_id
    returning 1
)
select (select count(*) from renewed),
       exists (select from {schema}.sessions session where session.worker_id = any ($1))
