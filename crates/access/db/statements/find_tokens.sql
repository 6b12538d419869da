/* find_tokens */
-- The valid tokens among these hashes.
-- $1 hashes bytea[]
-- Rows:  id, hash, name, grants, payloads, seconds until it expires (null: never).
-- Locks: none.
-- Index: access_token_hash_key.
select t.id, t.hash, t.name, t.grants::text, t.payloads, extract(epoch from t.expires_at - now())::float8
from {schema}.access_token t
where t.hash = any($1)
    and (t.expires_at is null or t.expires_at > now())
