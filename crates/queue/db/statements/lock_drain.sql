/* lock_drain */
-- Waits until nobody else drains what pushes under maintenance have left, and keeps others from it until the
-- transaction ends.
select pg_advisory_xact_lock(hashtextextended({schema_text} || '/drain', 3))
