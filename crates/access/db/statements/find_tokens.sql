/* find_tokens */
-- The valid tokens and sessions among these hashes.
-- $1 hashes bytea[]  $2 seconds after which an unused session ends double precision
-- Rows:  id, hash, name, grants, payloads, seconds until it expires (null: never), whether it is a session.
-- Locks: none.
-- Index: access_token_hash_key, access_session_hash_key.
select t.id, t.hash, t.name, t.grants::text, t.payloads, extract(epoch from t.expires_at - now())::float8, false
from {schema}.access_token t
where t.hash = any($1)
    and (t.expires_at is null or t.expires_at > now())
union all
select s.id, s.hash, s.name, s.grants::text, s.payloads, extract(epoch from s.expires_at - now())::float8, true
from {schema}.access_session s
where s.hash = any($1)
    and s.expires_at > now()
    and s.last_used_at > now() - make_interval(secs => $2)
