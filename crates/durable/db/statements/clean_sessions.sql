/* cleanup_orphaned_sessions */
-- Deletes sessions that have expired and have no activities queued.
-- Rows:  one: how many were deleted, and whether any are left.
-- Locks: skips locked rows. A session that is locked is in use; the next cleanup can delete it.
-- Index: worker_queue_session; the table of sessions is read whole, every few minutes.
with orphaned as materialized (
    select session.session_id from {schema}.sessions session
    where session.locked_until < now()
      and not exists (
          select from {schema}.worker_queue activity where activity.session_id = session.session_id
      )
    for update skip locked
), deleted as (
    delete from {schema}.sessions session
    using orphaned
    where session.session_id = orphaned.session_id
    returning session.session_id
)
select (select count(*) from deleted),
       exists (
           select from {schema}.sessions session
           where session.session_id not in (select deleted.session_id from deleted)
       )
