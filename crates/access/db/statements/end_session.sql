/* end_session */
-- Ends a session, changes the revision, and notifies the servers when the transaction commits.
-- $1 hash bytea  $2 channels text[]  $3 payloads text[]
-- Rows:  its name; none if there is no such session.
-- Locks: its row, and the row of the revision.
-- Index: access_session_hash_key.
with ended as (
    delete from {schema}.access_session s
    where s.hash = $1
    returning s.name
), changed as (
    update {schema}.access_revision
    set revision = revision + 1
    where exists (select from ended)
    returning revision
)
select e.name, {schema}.notify($2, $3)
from ended e
cross join changed
