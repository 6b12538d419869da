/* cleanup_orphaned_sessions */
-- Removes sessions that nobody has and nothing waits for.
-- Rows:  one: how many were removed, and whether any are left.
-- Locks: what nobody else has locked. Whoever has a session locked uses it, and it can go the next time.
-- Index: worker_queue_session; the table of sessions is read whole, every few minutes.
with old as materialized (
    select s.session_id from {schema}.sessions s
    where s.locked_until < now() and not exists (select from {schema}.worker_queue q where q.session_id = s.session_id)
    for update skip locked),
gone as (delete from {schema}.sessions s using old o where s.session_id = o.session_id returning s.session_id)
select (select count(*) from gone), exists (select from {schema}.sessions s where s.session_id not in (select g.session_id from gone g))
