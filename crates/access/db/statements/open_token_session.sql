/* open_token_session */
-- Opens a session of a token, which ends with it.
-- $1 id uuid  $2 hash bytea  $3 hash of the token bytea  $4 seconds double precision
-- Rows:  the name of the token; none if it is not valid.
-- Locks: the token, so that it is not revoked meanwhile.
-- Index: access_token_hash_key.
insert into {schema}.access_session (id, hash, token_id, name, grants, payloads, expires_at)
select $1, $2, t.id, t.name, t.grants, t.payloads, least(t.expires_at, now() + make_interval(secs => $4))
from {schema}.access_token t
where t.hash = $3
    and (t.expires_at is null or t.expires_at > now())
for key share
returning name
