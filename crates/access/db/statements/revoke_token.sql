/* revoke_token */
-- Revokes a token, changes the revision, and notifies the servers when the transaction commits.
-- $1 id uuid  $2 channels text[]  $3 payloads text[]
-- Rows:  its name; none if there is no such token.
-- Locks: its row, and the row of the revision.
-- Index: access_token_pkey.
with revoked as (
    delete from {schema}.access_token t
    where t.id = $1
    returning t.name
), changed as (
    update {schema}.access_revision
    set revision = revision + 1
    where exists (select from revoked)
    returning revision
)
select r.name, {schema}.notify($2, $3)
from revoked r
cross join changed
