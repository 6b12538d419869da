/* read_revision */
-- A number that changes with each revocation.
-- Rows:  one.
-- Locks: none.
-- Index: access_revision_pkey.
select r.revision from {schema}.access_revision r
