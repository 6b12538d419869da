/* cleanup_orphaned_sessions */
-- Removes sessions that nobody has and nothing waits for.
-- Rows:  one: how many were removed, and whether any are left.
-- Index: worker_queue_session; the table of sessions is read whole, every few minutes.
with gone as (
    delete from {schema}.sessions s
    where s.locked_until < now() and not exists (select from {schema}.worker_queue q where q.session_id = s.session_id) returning s.session_id)
select (select count(*) from gone), exists (select from {schema}.sessions s where s.session_id not in (select g.session_id from gone g))
