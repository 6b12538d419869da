/* renew_session_lock */
-- Extends sessions that are in use. $1 owners text[]  $2 milliseconds from now bigint  $3 idle after milliseconds bigint
-- Rows:  one: how many were extended, and whether these owners have any at all.
-- Locks: in the order of sessions, as an ack of several does.
-- Index: sessions_worker; primary key.
with mine as materialized (
    select s.session_id from {schema}.sessions s
    where s.worker_id = any ($1) and s.locked_until > now() and s.last_activity_at > now() - $3 * interval '1 ms'
    order by s.session_id for update),
renewed as (
    update {schema}.sessions s set locked_until = now() + $2 * interval '1 ms' from mine m
    where s.session_id = m.session_id returning 1)
select (select count(*) from renewed), exists (select from {schema}.sessions s where s.worker_id = any ($1))
